# SPDX-License-Identifier: GPL-2.0-or-later
"""What the tests of `reprise debug` share: a session that a debugger can connect to."""

import os
import re
import time

from tests.lib import guest_recording as recording
from tests.lib.tap import check

SAID = os.path.join(recording.TOP, "said")
READY = re.compile(r"^\(gdb\) target remote (\S+)$", re.M)
PATIENCE_S = recording.PATIENCE_S


def said():
    """On stderr, by the session that was started last."""
    with open(SAID, encoding="utf-8", errors="replace") as file:
        return file.read()


def launch(directory, *options, env=None):
    """The tool, which may not be ready yet; on any free port, unless the options say where."""
    if not {"--port", "--socket"} & set(options):
        options = ("--port", "0", *options)
    with open(SAID, "w") as stderr:
        return recording.start("debug", directory, *options, env=env, stderr=stderr)


def wait_until_ready(process):
    """The address, as gdb takes it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        over = process.poll() is not None or time.monotonic() > deadline
        ready = READY.search(said())
        if ready:
            return ready.group(1)
        check(not over, f"{' '.join(process.args)} is not ready: {said()}")
        time.sleep(0.01)


def start_debug(directory, *options, env=None):
    """A session that is ready, and its address as `target remote` takes it."""
    process = launch(directory, *options, env=env)
    return process, wait_until_ready(process)


def finish(process, status=0):
    """Waits for its end; what it said since it was ready (or at all, if it never was)."""
    process.wait(PATIENCE_S)
    check(process.returncode == status,
          f"{' '.join(process.args)}: status {process.returncode}, not {status}: {said()}")
    return READY.split(said())[-1].lstrip("\n")


def end_debug(process, status=0):
    """As with Ctrl-C or kill."""
    process.terminate()
    return finish(process, status)
