# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that runs and is not recorded."""

import contextlib
import os
import subprocess

from tests.lib import guest_recording as recording
from tests.lib.guest_recording import need, stock_command, wait_for_console

BUSY = "while :; do date; done"
SOCKET = os.path.join(recording.TOP, "guest.qmp")
PATIENCE_S = 60


@contextlib.contextmanager
def guest(run_this=BUSY, env=None):
    """The stock guest, busy, with a QMP socket for anybody."""
    need("aarch64")
    command = stock_command(run_this, smp=2, boot=("--mem", "128"))
    with open(recording.CONSOLE, "wb") as console:
        process = subprocess.Popen([*command, "-qmp", f"unix:{SOCKET},server=on,wait=off"],
                                   stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.PIPE,
                                   env=env)
    try:
        wait_for_console(b"reprise: begin", process)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)


def status(qmp):
    return qmp("query-recorder")["return"]
