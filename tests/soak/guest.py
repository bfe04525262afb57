# SPDX-License-Identifier: GPL-2.0-or-later
"""One recording and one replay of it, for the soak: they may fail, but not hang.

All is done with the tool, as a user would.  Whoever hangs is asked over QMP and
by gdb where it stands before it is killed: a hang that was not looked at has to
be waited for again.
"""

import contextlib
import filecmp
import json
import os
import re
import shlex
import socket
import subprocess
import time

from tests.lib.checkout import BUILD, TOP
from tests.lib.process import backtraces
from tests.lib.qmp import Qmp
from tests.lib.tool import BIN, REPRISE, emulator_of, stop_tool

PLACE = os.path.join(BUILD, "soak")
PROGRAMS = (REPRISE, *(os.path.join(BIN, f"qemu-system-{a}") for a in ("aarch64", "x86_64")))
QMP = os.path.relpath(os.path.join(PLACE, "qmp"), TOP)  # short: a socket's path is limited
QUIT_S = 25                     # a little more than the tool gives its QEMU
RAM_START = {"aarch64": 0x40000000, "x86_64": 0}        # of the machines that images/boot starts
MEMORY_MIB = 512
GUEST_OK = re.compile(rb"^reprise: end status=0\r?$", re.M)


class Failure(Exception):
    """What went wrong with a case, in words."""


def guest_command(run, smp=1, image="stock", arguments=(), mem=MEMORY_MIB, arch="aarch64",
                  append="", machine=None):
    """QEMU's command line; images/boot knows it."""
    done = subprocess.run([f"{TOP}/images/boot", "--print", "--arch", arch, "--smp", str(smp),
                           "--mem", str(mem), "--image", image, "--append", append, "--run", run,
                           *(["--machine", machine] if machine else []), "--", *arguments],
                          stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return shlex.split(done.stdout)


# --- a process that may hang ----------------------------------------------------------

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


def look_at(process):
    """Where a tool and its QEMU hang."""
    lines = [f"{command}: {ask(command)}" for command in ("query-status", "query-recorder")]
    pid = emulator_of(process)
    return "\n".join(lines + ([backtraces(pid)] if pid else ["it has no QEMU"]))


def run_tool(arguments, console, log, patience, meanwhile=None):
    """Runs the tool to its end, and a function while it runs; returns what it said.

    Raises Failure.
    """
    said = console + ".said"
    with open(console, "wb") as output, open(said, "wb") as errors:
        # Its own session: a Ctrl-C is for us, and we end it in an orderly way.
        process = subprocess.Popen([REPRISE, *arguments], stdin=subprocess.DEVNULL, cwd=TOP,
                                   stdout=output, stderr=errors, start_new_session=True)
    process.stderr = open(said, errors="replace")       # Qmp() reads it
    deadline = time.monotonic() + patience
    hung = None
    try:
        if meanwhile:
            # When QEMU ends too early, its status tells.
            with contextlib.suppress(ValueError, ConnectionError):
                meanwhile(process, deadline)
        process.wait(max(1, deadline - time.monotonic()))
    except (subprocess.TimeoutExpired, TimeoutError):
        hung = look_at(process)
    finally:
        stop_tool(process, QUIT_S)
        process.stderr.close()
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


# --- RAM, byte for byte -------------------------------------------------------------------

def wait_for_event(qmp, name, deadline):
    """False if QEMU ended first.  Raises TimeoutError."""
    qmp.socket.settimeout(max(0.1, deadline - time.monotonic()))
    try:
        qmp.event(name)
        return True
    except ConnectionResetError:
        return False


def wait_for_line(process, words, deadline):
    """False if the tool ended first.  Raises TimeoutError."""
    text = ""
    while words not in text:
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
        text += process.stderr.read()
    return True


def save_ram_and_quit(qmp, path, deadline, arch):
    """Of a guest that stands, or is about to.  Raises TimeoutError."""
    qmp.socket.settimeout(60)
    while qmp("query-status")["return"]["running"]:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)
    answer = qmp("pmemsave", val=RAM_START[arch], size=MEMORY_MIB << 20, filename=path)
    if "error" in answer:
        raise Failure(f"pmemsave: {answer['error']['desc']}")
    qmp("quit")


def ram_of_recorder(path, arch):
    """For run_tool: saves RAM when the guest, which has -no-shutdown, has powered off."""
    def meanwhile(process, deadline):
        with contextlib.closing(connect(process)) as qmp:
            if wait_for_event(qmp, "RECORDER_STOPPED", deadline):
                save_ram_and_quit(qmp, path, deadline, arch)
    return meanwhile


def ram_of_replay(path, arch):
    def meanwhile(process, deadline):
        if wait_for_line(process, "paused at the end", deadline):
            with contextlib.closing(connect(process)) as qmp:
                save_ram_and_quit(qmp, path, deadline, arch)
    return meanwhile


def same(one, other):
    return os.path.exists(other) and filecmp.cmp(one, other, shallow=False)


def connect(process):
    try:
        return Qmp(os.path.join(TOP, QMP), process)
    except AssertionError as ended:
        raise Failure(f"QEMU ended at once: {ended}") from None


# --- a recording ------------------------------------------------------------------------

class Recording:
    """A recording that is made, replayed and, if all went well, removed."""

    def __init__(self, name, patience=300, notes=None):
        self.directory = os.path.join(PLACE, name)
        self.patience = patience
        self.arch = "aarch64"           # of the guest
        self.notes = notes or {}        # what earlier cases returned, by name

    def path(self, end):
        return f"{self.directory}.{end}"

    @property
    def files(self):
        return [self.path(end) for end in ("console", "replayed", "log", "ram", "ram-replayed")]

    def record(self, run, smp=1, image="stock", arguments=(), options=(), ram=False,
               mem=MEMORY_MIB, append="", machine=None):
        """The console's output, after a run that went well.

        arguments are QEMU's, options the tool's, append the kernel's; ram saves RAM, for replay()
        to compare, of a guest that has the usual mem (MiB).
        """
        console = self.path("console")
        # With --qmp the tool waits for somebody at the end.
        more = ["-no-shutdown"] if ram else ["-qmp", f"unix:{QMP},server=on,wait=off"]
        options = [*options, "--qmp", QMP] if ram else options
        command = guest_command(run, smp, image, [*arguments, *more], mem, self.arch, append,
                                machine)
        run_tool(["record", "-o", self.directory, *options, "--", *command], console,
                 self.path("log"), self.patience,
                 ram_of_recorder(self.path("ram"), self.arch) if ram else None)
        with open(console, "rb") as file:
            output = file.read()
        if not GUEST_OK.search(output):
            raise Failure(f"the guest's command failed: {output[-400:].decode(errors='replace')}")
        if ram and not os.path.exists(self.path("ram")):
            raise Failure("record: QEMU ended before its RAM was saved")
        return output

    def replay(self, *arguments, order=None):
        """Must be identical, the console's output and what record() saved of RAM too."""
        console, shown = self.path("console"), self.path("replayed")
        ram, ram_replayed = self.path("ram"), self.path("ram-replayed")
        if os.path.exists(ram):
            how = ["--pause-at-end", "--qmp", QMP, "--"]
        else:
            how = ["--", "-qmp", f"unix:{QMP},server=on,wait=off"]
        if order:
            how = ["--order", order, *how]
        run_tool(["replay", self.directory, *how, *arguments], shown, self.path("log"),
                 self.patience,
                 ram_of_replay(ram_replayed, self.arch) if os.path.exists(ram) else None)
        with open(console, "rb") as one, open(shown, "rb") as other:
            if one.read() != other.read():
                raise Failure(f"replay: the console's output differs: diff {console} {shown}")
        if os.path.exists(ram) and not same(ram, ram_replayed):
            raise Failure(f"replay: RAM differs: cmp {ram} {ram_replayed}")
