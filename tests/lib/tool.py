# SPDX-License-Identifier: GPL-2.0-or-later
"""The tool under test and its emulators: where they are, how they are ended, what info says.

REPRISE_BIN, in the environment, is a folder with other ones.
"""

import json
import os
import re
import signal
import subprocess

from tests.lib.checkout import BUILD
from tests.lib.process import run
from tests.lib.tap import skip

BIN = os.environ.get("REPRISE_BIN") or os.path.join(BUILD, "bin")      # which ones to test
REPRISE = os.path.join(BIN, "reprise")
ARCHES = ("aarch64", "x86_64")


def built_arches():
    """The guests that this build has an emulator for (configure --targets)."""
    return [a for a in ARCHES if os.path.exists(f"{BIN}/qemu-system-{a}")]


def need(arch):
    """Skip the test if this build has no emulator for such guests."""
    if arch not in built_arches():
        skip(f"no qemu-system-{arch} was built")


def info(directory, reprise=REPRISE):
    """What the tool says of a recording."""
    return json.loads(run(reprise, "info", "--json", directory).stdout)


def last_moment(directory):
    """Return the last moment of a recording."""
    beyond = run(REPRISE, "info", "--at", str(1 << 63), directory, status=2).stderr
    return int(re.search(r"its last at (\d+)$", beyond).group(1))


def emulator_of(process):
    """The QEMU that the tool started, or None."""
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            return int(children.read().split()[0])
    except (FileNotFoundError, IndexError):
        return None


def kill_emulator(process):
    """Kill the QEMU that the tool started: the tool tells of that, and ends."""
    os.kill(emulator_of(process), signal.SIGKILL)


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
