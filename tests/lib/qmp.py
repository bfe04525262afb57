# SPDX-License-Identifier: GPL-2.0-or-later
"""QMP: a connection to a QEMU, and a QEMU that only answers there."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

from tests.lib.tap import check
from tests.lib.tool import BIN

PATIENCE_S = 120


class Qmp:
    """A connection to the QMP socket that a QEMU has, or is about to have."""

    def __init__(self, path, process):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
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

    def replayed(self):
        """How the replay ended.  Its event may have come before this connection."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            info = self("query-recorder")["return"]
            if "last-replay" in info:
                return info["last-replay"]
            check(time.monotonic() < deadline, f"the replay does not end: {info}")
            time.sleep(0.02)

    def replay_from_here(self, directory):
        """Replay by a QEMU that was started to replay nothing: --until 0 --pause-at-end.

        No event of this replay can come before this connection.
        """
        self.replayed()
        self.events.clear()
        check(self("recorder-replay", directory=directory) == {"return": {}}, "it was refused")

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
