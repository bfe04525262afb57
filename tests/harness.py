# SPDX-License-Identifier: GPL-2.0-or-later
"""What the test scripts share: a test is a function, its output is TAP.

    from harness import test, check, main

    @test
    def something_holds():
        check(1 + 1 == 2, "arithmetic")

    main()

A test passes when it returns, fails when it raises, and is skipped with
skip(reason) when this machine cannot run it.  tests/run runs all scripts;
each can also be run by itself, with the names of the tests wanted.
"""

import contextlib
import json
import os
import shutil
import socket
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(TOP, "build")
BIN = os.environ.get("REPRISE_BIN") or os.path.join(BUILD, "bin")      # which ones to test
REPRISE = os.path.join(BIN, "reprise")
ARCHES = ("aarch64", "x86_64")

_tests = []
_cleanups = []


class Skip(Exception):
    pass


def test(function):
    _tests.append((function.__name__, function))
    return function


def test_each(values):
    """A test per value; the function gets the value."""
    def decorate(function):
        for value in values:
            _tests.append((f"{function.__name__}[{value}]",
                           lambda value=value: function(value)))
        return function
    return decorate


def skip(reason):
    raise Skip(reason)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def built_arches():
    """The guests that this build has an emulator for (configure --targets)."""
    return [a for a in ARCHES if os.path.exists(f"{BIN}/qemu-system-{a}")]


def run(*args, status=0, timeout=300, **kwargs):
    """Run a command; its exit status must be as expected, or one of those.  Output is text."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=timeout,
                          encoding="utf-8", errors="replace", **kwargs)
    expected = status if isinstance(status, tuple) else (status,)
    check(done.returncode in expected,
          f"{' '.join(args)}: exit status {done.returncode} instead of {status}\n"
          f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def info(directory):
    """What the tool says of a recording."""
    return json.loads(run(REPRISE, "info", "--json", directory).stdout)


def one_line(text):
    """An error for people: exactly one line, which is returned."""
    lines = text.splitlines()
    check(len(lines) == 1, f"not one line but {len(lines)}:\n{text}")
    return lines[0]


def emulator_of(process):
    """The QEMU that the tool started, or None."""
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            return int(children.read().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def backtraces(pid):
    """Of all threads, by gdb; or why there are none."""
    try:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 16"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, encoding="utf-8", errors="replace",
                              timeout=60)
        return done.stdout
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        return f"no backtraces: {error}"


def stop_tool(process, patience_s):
    """End the tool, and its QEMU, which may be past listening."""
    if process.poll() is not None:
        return
    emulator = emulator_of(process)
    process.terminate()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        if emulator:
            os.kill(emulator, signal.SIGKILL)
        process.kill()
        process.wait()


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


def sources():
    """Every file of the project, committed or about to be."""
    listed = run("git", "-C", TOP, "ls-files", "-co", "--exclude-standard").stdout
    return [f for f in listed.splitlines() if os.path.lexists(os.path.join(TOP, f))]


def copy_of_checkout(directory):
    """The project as a fresh clone would have it, without build/."""
    for name in sources():
        target = os.path.join(directory, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(TOP, name), target, follow_symlinks=False)
    return directory


class Qmp:
    """A connection to the QMP socket that a QEMU has, or is about to have."""

    def __init__(self, path, process):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        while True:
            try:
                self.socket.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if process.poll() is not None:
                    raise AssertionError(process.stderr.read())
                time.sleep(0.01)
        # Two: what was read ahead is lost when the same one is written to.
        self.stream = self.socket.makefile("r", encoding="utf-8")
        self.commands = self.socket.makefile("w", encoding="utf-8")
        self.events = []            # that came and were not taken yet
        self.n_sent = 0
        self.greeting = self._read()
        self("qmp_capabilities")

    def _read(self):
        """The next message; an event is kept."""
        line = self.stream.readline()
        if not line:
            raise ConnectionResetError("QEMU has closed its QMP connection")
        message = json.loads(line)
        if "event" in message:
            self.events.append(message)
        return message

    def __call__(self, command, **arguments):
        """The whole answer: {"return": ...} or {"error": ...}."""
        self.n_sent += 1
        json.dump({"execute": command, "arguments": arguments, "id": self.n_sent}, self.commands)
        self.commands.flush()
        while True:
            answer = self._read()
            # And not the one to somebody else, who is gone.
            if "event" not in answer and answer.pop("id", None) == self.n_sent:
                return answer

    def named(self, name):
        """Of events that came and were not taken, the data."""
        return [event.get("data") for event in self.events if event["event"] == name]

    def event(self, name):
        """The data of the first event of this name, which is waited for and taken."""
        while True:
            for event in self.events:
                if event["event"] == name:
                    self.events.remove(event)
                    return event.get("data")
            self._read()

    def close(self):
        with contextlib.suppress(ConnectionError):      # a command that came too late to be sent
            self.commands.close()
        self.stream.close()
        self.socket.close()


class Qemu:
    """A QEMU that is paused at power-on and answers QMP."""

    def __init__(self, arch, *args):
        self.dir = tempfile.mkdtemp(prefix="reprise-test-")
        path = os.path.join(self.dir, "qmp")
        machine = {"aarch64": "virt", "x86_64": "q35"}[arch]
        self.process = subprocess.Popen(
            [f"{BIN}/qemu-system-{arch}", "-M", machine, "-S", "-display", "none",
             "-nodefaults", "-qmp", f"unix:{path},server=on,wait=on", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.qmp = Qmp(path, self.process)
        self.greeting = self.qmp.greeting

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.qmp.close()
        shutil.rmtree(self.dir)


def after_test(function, *args):
    """Call this when the test has ended, however it did."""
    _cleanups.append(lambda: function(*args))


@contextlib.contextmanager
def cleaned_up():
    """Where a test ends."""
    try:
        yield
    finally:
        while _cleanups:
            _cleanups.pop()()


def _run_one(number, name, function):
    try:
        with cleaned_up():
            function()
        print(f"ok {number} - {name}", flush=True)
        return True
    except Skip as reason:
        print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        return True
    except Exception:                           # the next test runs all the same
        for line in traceback.format_exc().splitlines():
            print(f"# {line}")
        print(f"not ok {number} - {name}", flush=True)
        return False


def main():
    wanted = sys.argv[1:]
    tests = [t for t in _tests if not wanted or any(w in t[0] for w in wanted)]
    if not tests:
        sys.exit(f"no test has a name with {' or '.join(wanted)}")
    print(f"1..{len(tests)}", flush=True)
    results = [_run_one(i, *t) for i, t in enumerate(tests, 1)]
    sys.exit(0 if all(results) else 1)
