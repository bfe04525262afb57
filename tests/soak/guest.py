# SPDX-License-Identifier: GPL-2.0-or-later
"""One recording and one replay of it, for the soak: they may fail, but not hang.

All is done with the tool, as a user would.  Whoever hangs is asked over QMP and
by gdb where it stands before it is killed: a hang that was not looked at has to
be waited for again.
"""

import json
import os
import re
import shlex
import signal
import socket
import subprocess

from harness import BIN, BUILD, TOP

PLACE = os.path.join(BUILD, "soak")
REPRISE = os.path.join(BIN, "reprise")
QEMU = os.path.join(BIN, "qemu-system-aarch64")
QMP = os.path.relpath(os.path.join(PLACE, "qmp"), TOP)  # short: a socket's path is limited
QUIT_S = 25                     # a little more than the tool gives its QEMU
GUEST_OK = re.compile(rb"^reprise: end status=0\r?$", re.M)


class Failure(Exception):
    """What went wrong with a case, in words."""


def guest_command(run, image="stock", arguments=()):
    """QEMU's command line for a guest with one vCPU; images/boot knows it."""
    done = subprocess.run([f"{TOP}/images/boot", "--print", "--arch", "aarch64", "--smp", "1",
                           "--mem", "512", "--image", image, "--run", run, "--", *arguments],
                          stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return shlex.split(done.stdout)


# --- a process that may hang ----------------------------------------------------------

def emulator_of(process):
    """The QEMU that the tool started, or None."""
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            return int(children.read().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def ask(command):
    """An answer over QMP, or why there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(os.path.join(TOP, QMP))
            stream = connection.makefile("rw")
            stream.readline()
            for name in ("qmp_capabilities", command):
                stream.write(json.dumps({"execute": name}))
                stream.flush()
                answer = stream.readline()
            return answer.strip()
    except OSError as error:
        return f"no answer: {error}"


def backtraces(pid):
    try:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 16"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, encoding="utf-8", errors="replace",
                              timeout=60)
        return done.stdout
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        return f"no backtraces: {error}"


def look_at(process):
    """Where a tool and its QEMU hang."""
    lines = [f"{command}: {ask(command)}" for command in ("query-status", "query-recorder")]
    pid = emulator_of(process)
    return "\n".join(lines + ([backtraces(pid)] if pid else ["it has no QEMU"]))


def stop(process):
    """End the tool, and its QEMU, which may be past listening."""
    if process.poll() is not None:
        return
    pid = emulator_of(process)
    process.terminate()
    try:
        process.wait(QUIT_S)
    except subprocess.TimeoutExpired:
        if pid:
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def run_tool(arguments, console, log, patience):
    """Runs the tool to its end; returns what it said.  Raises Failure."""
    said = console + ".said"
    with open(console, "wb") as output, open(said, "wb") as errors:
        # Its own session: a Ctrl-C is for us, and we end it in an orderly way.
        process = subprocess.Popen([REPRISE, *arguments], stdin=subprocess.DEVNULL, cwd=TOP,
                                   stdout=output, stderr=errors, start_new_session=True)
    hung = None
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        hung = look_at(process)
    finally:
        stop(process)
    with open(said, errors="replace") as errors:
        text = errors.read().strip()
    os.unlink(said)
    with open(log, "a") as file:
        print(f"$ {shlex.join([REPRISE, *arguments])}\n{text}\nstatus {process.returncode}"
              + (f"\nhung:\n{hung}" if hung else ""), file=file)
    if hung:
        raise Failure(f"{arguments[0]} hangs: no end in {patience} s; {log} says where")
    if process.returncode != 0:
        raise Failure(f"{arguments[0]}: status {process.returncode}: {text}")
    return text


# --- a recording ------------------------------------------------------------------------

class Recording:
    """A recording that is made, replayed and, if all went well, removed."""

    def __init__(self, name, patience=300):
        self.directory = os.path.join(PLACE, name)
        self.patience = patience

    @property
    def files(self):
        return [f"{self.directory}.{end}" for end in ("console", "replayed", "log")]

    def record(self, run, image="stock", arguments=()):
        """The console's output, after a run that went well."""
        console, _, log = self.files
        # Not --qmp: with that the tool waits for somebody at the end.
        command = guest_command(run, image, [*arguments, "-qmp", f"unix:{QMP},server=on,wait=off"])
        run_tool(["record", "-o", self.directory, "--", *command], console, log, self.patience)
        with open(console, "rb") as file:
            output = file.read()
        if not GUEST_OK.search(output):
            raise Failure(f"the guest's command failed: {output[-400:].decode(errors='replace')}")
        return output

    def replay(self, *arguments):
        """Must be identical, the console's output too."""
        console, shown, log = self.files
        run_tool(["replay", self.directory, "--", "-qmp", f"unix:{QMP},server=on,wait=off",
                  *arguments], shown, log, self.patience)
        with open(console, "rb") as one, open(shown, "rb") as other:
            if one.read() != other.read():
                raise Failure(f"the console's output differs: diff {console} {shown}")
