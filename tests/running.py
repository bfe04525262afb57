# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that runs and is not recorded, and a QMP connection that keeps events."""

import contextlib
import json
import os
import subprocess
import time

import recording
from harness import Qmp, check
from recording import need, stock_command, wait_for_console

BUSY = "while :; do date; done"
SOCKET = os.path.join(recording.TOP, "guest.qmp")
PATIENCE_S = 60


@contextlib.contextmanager
def guest(run_this=BUSY):
    """The stock guest, busy, with a QMP socket for anybody."""
    need("aarch64")
    command = stock_command(run_this, smp=2, boot=("--mem", "128"))
    with open(recording.CONSOLE, "wb") as console:
        process = subprocess.Popen([*command, "-qmp", f"unix:{SOCKET},server=on,wait=off"],
                                   stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.PIPE)
    try:
        wait_for_console(b"reprise: begin", process)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(SOCKET)


class Listener(Qmp):
    """Keeps the events that come."""

    def __call__(self, command, **arguments):
        self.n_sent = getattr(self, "n_sent", 0) + 1
        json.dump({"execute": command, "arguments": arguments, "id": self.n_sent}, self.commands)
        self.commands.flush()
        while True:
            message = json.loads(self.stream.readline())
            if "event" in message:
                self.events.append(message)
            elif message.pop("id", None) == self.n_sent:    # and not somebody else's, who is gone
                return message

    def named(self, name):
        return [event["data"] for event in self.events if event["event"] == name]

    def wait_for(self, name):
        """The data of the first one, which is taken."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            for event in self.events:
                if event["event"] == name:
                    self.events.remove(event)
                    return event["data"]
            check(time.monotonic() < deadline, f"no {name} in {self.events}")
            self("query-status")
            time.sleep(0.02)


def status(qmp):
    return qmp("query-recorder")["return"]
