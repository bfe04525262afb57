# SPDX-License-Identifier: GPL-2.0-or-later
"""A real gdb, driven by a test.

    with Gdb(symbols()) as gdb:
        gdb.connect(socket)
        gdb.command("break start_kernel")
        stop = gdb.go("continue")
        check(stop.reason == "breakpoint-hit" and stop.function == "start_kernel", stop)
        check("start_kernel" in gdb.command("backtrace"), gdb)

It is Debian's gdb-multiarch, spoken to in its machine interface ("GDB/MI" in its manual),
which says where a command's output ends and what a stop is; commands are those that a user
types.  What takes too long, or is refused unexpectedly, fails with what was said before.
"""

import os
import re
import select
import shutil
import subprocess
import time

from tests.lib.checkout import TOP
from tests.lib.tap import skip

PROGRAM = os.environ.get("REPRISE_GDB") or "gdb-multiarch"
PATIENCE_S = 120            # for an answer; the guest's pace is that of a busy host
TRANSCRIPT_LINES = 60       # shown when something fails
TRANSCRIPT_WIDTH = 1000

# No questions, no pages, no search for debugging information elsewhere.
SETTINGS = ["set confirm off", "set pagination off", "set debuginfod enabled off",
            "set style enabled off", "set width 0", "set height 0"]


def symbols(arch="aarch64"):
    """The stock kernel with its symbols; the test is skipped if they are not here."""
    done = subprocess.run([f"{TOP}/images/symbols", "--arch", arch, "--show"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    if done.returncode != 0:
        skip(done.stderr.strip().removeprefix("images/symbols: "))
    return done.stdout.strip()


# --- the machine interface --------------------------------------------------------------------

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def unquote(text):
    """A C string without its quotes; bytes that are not ASCII come as octal numbers."""
    def replace(match):
        what = match.group(1)
        return chr(int(what, 8)) if what[0].isdigit() else ESCAPES.get(what, what)
    plain = re.sub(r"\\([0-7]{1,3}|.)", replace, text)
    return plain.encode("latin-1", "replace").decode("utf-8", "replace")


class Results:
    """A parser of `name=value,...`, where a value is a string, a {tuple} or a [list]."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def _next(self):
        return self.text[self.at:self.at + 1]

    def _match(self, pattern):
        match = re.compile(pattern, re.DOTALL).match(self.text, self.at)
        if not match:
            raise ValueError(f"gdb said what is no result, at {self.at}: {self.text}")
        self.at = match.end()
        return match.group(1)

    def pairs(self, end=""):
        found = {}
        while self._next() != end:
            name = self._match(r",?([\w-]+)=")
            found[name] = self._value()
        self.at += len(end)
        return found

    def _list(self):
        found = []
        while self._next() != "]":
            self._match(r"(,?)")
            # Items may have a name each, always the same one.
            if self._next() not in '"{[':
                self._match(r"([\w-]+)=")
            found.append(self._value())
        self.at += 1
        return found

    def _value(self):
        kind = self._match(r'(["{\[])')
        if kind == "{":
            return self.pairs("}")
        if kind == "[":
            return self._list()
        return unquote(self._match(r'((?:[^"\\]|\\.)*)"'))


class Stop:
    """Why and where a thread stopped: a `*stopped` record, and what a user saw of it."""

    def __init__(self, record, said):
        self.record, self.said = record, said
        self.reason = record.get("reason", "")      # "breakpoint-hit", "end-stepping-range", ...
        self.thread = int(record.get("thread-id", 0))
        self.breakpoint = int(record.get("bkptno", 0))
        self.signal = record.get("signal-name", "")
        frame = record.get("frame", {})
        self.pc = int(frame.get("addr", "0").split()[0], 16)
        self.function = frame.get("func", "")
        self.file = frame.get("file", "")
        self.line = int(frame.get("line", 0))

    def __str__(self):
        return f"{self.record}"


# --- the debugger -------------------------------------------------------------------------------

class Gdb:
    """A debugger, from here to close(); str() is what was said so far."""

    def __init__(self, vmlinux=None):
        if not shutil.which(PROGRAM):
            skip(f"no {PROGRAM}: install that package")
        self.transcript = []
        self.buffer = b""
        self.answers = {}           # by the number of the command
        self.stops = []             # that were not waited for yet
        self.texts = []             # console output, since the last command
        self.lost = False           # its connection
        self.n_sent = 0
        early = [word for setting in SETTINGS for word in ("-iex", setting)]
        self.process = subprocess.Popen(
            [PROGRAM, "-q", "-nx", "--interpreter=mi3", *early, *([vmlinux] if vmlinux else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "DEBUGINFOD_URLS": "", "LC_ALL": "C.UTF-8"})
        try:
            self.command("echo ready")
        except AssertionError:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __str__(self):
        return "\n".join(line[:TRANSCRIPT_WIDTH] for line in self.transcript[-TRANSCRIPT_LINES:])

    def close(self):
        """At once, as if it had crashed: to `quit` would end the guest, too."""
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    # --- what it says ---

    def _fail(self, what):
        raise AssertionError(f"gdb {what}; it said:\n{self}")

    def _line(self, deadline, awaited):
        """The next line; patience ends at the deadline."""
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self._fail(f"does not come to {awaited}")
            got = os.read(self.process.stdout.fileno(), 65536)
            if not got:
                self._fail(f"ended before {awaited}")
            self.buffer += got
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode("utf-8", "replace").rstrip("\r")

    def _read(self, deadline, awaited):
        """Take in one line."""
        line = self._line(deadline, awaited)
        self.transcript.append(line)
        match = re.match(r"(\d*)([~@&^*=+])(.*)", line, re.DOTALL)
        if not match:
            return                  # the prompt
        number, kind, rest = match.groups()
        if kind in "~@":            # from gdb itself, and from the target: monitor commands
            self.texts.append(unquote(rest[1:-1]))
        elif kind == "&":           # errors; this one comes at any time
            self.lost |= bool(re.search("Remote (connection closed|communication error)", rest))
        elif kind in "^*":
            name, _, results = rest.partition(",")
            if kind == "^":
                self.answers[int(number or 0)] = (name, Results(results).pairs())
            elif name == "stopped":
                self.stops.append(Stop(Results(results).pairs(), "".join(self.texts)))

    def _answer(self, text, timeout):
        """Have a command done: (how it ended, results, console output)."""
        self.n_sent += 1
        number, self.texts = self.n_sent, []
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        line = text if text.startswith("-") else f'-interpreter-exec console "{quoted}"'
        self.transcript.append(f"> {text}")
        try:
            self.process.stdin.write(f"{number}{line}\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self._fail(f"was gone before {text}")
        deadline = time.monotonic() + timeout
        while number not in self.answers:
            self._read(deadline, f"an answer to {text}")
        return (*self.answers.pop(number), "".join(self.texts))

    # --- what a test asks for ---

    def command(self, text, timeout=PATIENCE_S):
        """What a user sees who types this; that it is refused is a failure."""
        how, results, said = self._answer(text, timeout)
        if how == "error":
            self._fail(f"refuses {text}: {results.get('msg')}")
        return said

    def does(self, text, timeout=PATIENCE_S):
        """Does gdb do this, or refuse it?"""
        return self._answer(text, timeout)[0] != "error"

    def refusal(self, text, timeout=PATIENCE_S):
        """Why gdb refuses this, which it must."""
        how, results, said = self._answer(text, timeout)
        if how != "error":
            self._fail(f"does not refuse {text}: {said}")
        return results["msg"]

    def machine(self, text, timeout=PATIENCE_S):
        """The results of a command of the machine interface, -thread-info for one."""
        how, results, _ = self._answer(text, timeout)
        if how == "error":
            self._fail(f"refuses {text}: {results.get('msg')}")
        return results

    def value(self, expression):
        """A number, or an address."""
        quoted = f'"(unsigned long)({expression})"'
        return int(self.machine(f"-data-evaluate-expression {quoted}")["value"])

    def threads(self):
        """{gdb's number: what the gdbstub says of that vCPU}."""
        return {int(thread["id"]): thread.get("details", "")
                for thread in self.machine("-thread-info")["threads"]}

    def connect(self, path, timeout=PATIENCE_S):
        """To the gdbstub that listens on a Unix socket, or is about to; where the guest stands."""
        deadline = time.monotonic() + timeout
        self.stops, self.lost = [], False
        while True:
            how, results, _ = self._answer(f"target remote {path}", timeout)
            if how != "error":
                return self.stopped(deadline - time.monotonic())
            if not re.search("No such file|refused", results["msg"]) or time.monotonic() > deadline:
                self._fail(f"cannot connect: {results['msg']}")
            time.sleep(0.05)

    def go(self, text, timeout=PATIENCE_S):
        """A command that lets the guest go on, and the stop that it comes to."""
        deadline = time.monotonic() + timeout
        self.stops = []
        self.command(text, timeout)
        return self.stopped(deadline - time.monotonic())

    def start(self, text="continue", timeout=PATIENCE_S):
        """The same without waiting for the stop: interrupt() and stopped() are for later."""
        self.stops = []
        self.command(f"{text} &", timeout)

    def stopped(self, timeout=PATIENCE_S):
        """The next stop."""
        deadline = time.monotonic() + timeout
        while not self.stops:
            self._read(deadline, "a stop")
            if self.lost:
                self._fail("has lost the guest")
        return self.stops.pop(0)

    def interrupt(self, timeout=PATIENCE_S):
        """Where it is when it stops; gdb tells the guest what it does at Ctrl-C."""
        deadline = time.monotonic() + timeout
        self.command("-exec-interrupt", timeout)
        return self.stopped(deadline - time.monotonic())
