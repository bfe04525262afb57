# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that runs and is not recorded."""

import contextlib
import os
import subprocess
import time

from tests.lib.guest_recording import stock_command
from tests.lib.qmp import Qmp
from tests.lib.tap import check
from tests.lib.tool import need

BUSY = "while :; do date; done"
PATIENCE_S = 60


def socket_of(workspace):
    """Return the path of the QMP socket that a guest in this workspace has."""
    return workspace.path("guest.qmp")


class LiveGuest:
    """The process of its QEMU, and a QMP socket for anybody."""

    def __init__(self, process, socket):
        self.process, self.socket = process, socket

    def connect(self):
        return Qmp(self.socket, self.process)


@contextlib.contextmanager
def live_guest(workspace, run_this=BUSY, env=None, cpu=None, arguments=()):
    """The stock guest, busy, with another CPU model if one is given, and with more arguments of
    QEMU; what it shows goes to the workspace's console."""
    need("aarch64")
    command, socket = stock_command(run_this, smp=2, boot=("--mem", "128")), socket_of(workspace)
    command = [*command, *(["-cpu", cpu] if cpu else []), *arguments]
    with open(workspace.console.path, "wb") as console:
        process = subprocess.Popen([*command, "-qmp", f"unix:{socket},server=on,wait=off"],
                                   stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.PIPE,
                                   env=env)
    try:
        workspace.console.wait_for(b"reprise: begin", process)
        yield LiveGuest(process, socket)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)


def record_while(workspace, guest, directory, word, checkpoints):
    """Record the guest until it has shown the word so many times more, with a checkpoint each time;
    return all that it showed."""
    qmp = guest.connect()
    answer = qmp("recorder-start", directory=directory)
    check(answer == {"return": {}}, answer)
    for _ in range(checkpoints):
        before = len(workspace.console.read())
        while word not in workspace.console.read()[before:]:
            time.sleep(0.01)
            qmp("query-status")
        check("return" in qmp("recorder-checkpoint"), "recorder-checkpoint")
    check(qmp("recorder-stop", pause=True) == {"return": {}}, "recorder-stop")
    qmp.close()
    return workspace.console.read()


def status(qmp):
    return qmp("query-recorder")["return"]
