# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of recording share: `reprise record` and `reprise replay` of real guests.

All recordings are in one temporary directory.  If a test fails they are kept,
and the last line says where.  Console output is bytes, to be compared as such.
"""

import functools
import os
import shlex
import shutil
import subprocess
import tempfile
import time

from tests.lib import tap
from tests.lib.checkout import TOP as SOURCE
from tests.lib.process import one_line, run
from tests.lib.tap import after_test, check, skip
from tests.lib.tool import REPRISE, built_arches, info, stop_tool

TOP = tempfile.mkdtemp(prefix="reprise-record-")
CONSOLE = os.path.join(TOP, "console")
PATIENCE_S = 300
QUIT_S = 10


def need(arch):
    if arch not in built_arches():
        skip(f"no qemu-system-{arch} was built")


def place(name):
    """A path for a recording that is not there yet."""
    directory = os.path.join(TOP, name)
    shutil.rmtree(directory, ignore_errors=True)
    return directory


@functools.lru_cache
def stock_command(command, smp=1, boot=()):
    """QEMU's command line for the stock guest, as a list; `boot`: options of images/boot."""
    return shlex.split(run(f"{SOURCE}/images/boot", "--arch", "aarch64", "--smp", str(smp),
                           "--run", command, "--print", *boot).stdout)


def start(*args, prefix=(), env=None, stderr=subprocess.PIPE):
    """The tool in the background, its console output in a file."""
    need("aarch64")
    with open(CONSOLE, "wb") as console:
        process = subprocess.Popen([*prefix, REPRISE, *args], stdin=subprocess.DEVNULL,
                                   stdout=console, stderr=stderr, encoding="utf-8",
                                   env=env)
    after_test(stop_tool, process, QUIT_S)
    return process


def console():
    with open(CONSOLE, "rb") as file:
        return file.read()


def wait_for_console(word, process):
    deadline = time.monotonic() + PATIENCE_S
    while word not in console():
        check(process.poll() is None, f"it ended before {word!r} appeared:\n{console()}")
        check(time.monotonic() < deadline, f"{word!r} did not appear in:\n{console()}")
        time.sleep(0.02)


def end(process, status=0):
    """Waits for it; returns what it said on stderr."""
    said = process.communicate(timeout=PATIENCE_S)[1]
    check(process.returncode == status,
          f"{' '.join(process.args)}: status {process.returncode}, not {status}: {said}")
    return said


def record(directory, *args, status=0):
    """Console output, and the line that the tool says."""
    said = end(start("record", "-o", directory, *args), status)
    return console(), one_line(said)


def replay(directory, *args, status=0):
    said = end(start("replay", directory, *args), status)
    return console(), one_line(said)


def check_race(directory):
    """Lines have passed between its vCPUs, not just once or twice."""
    arcs = info(directory)["arcs"]
    check(arcs > 10, f"there was no race: {arcs} arcs")


def hello():
    """A short recording that tests share: directory, console output, what was said."""
    if not hasattr(hello, "kept"):
        directory = place("hello")
        hello.kept = directory, *record(directory, "--run", "echo hello")
    return hello.kept


def copy_of_hello():
    """One to be spoiled."""
    return shutil.copytree(hello()[0], place("spoiled"))


def main():
    try:
        tap.main()
    except SystemExit as result:
        if result.code == 0:
            shutil.rmtree(TOP)
        else:
            print(f"# the recordings are kept: {REPRISE} replay {TOP}/hello")
        raise
