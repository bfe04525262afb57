# SPDX-License-Identifier: GPL-2.0-or-later
"""Sessions of `reprise debug`, which a debugger can connect to."""

import re
import time

from tests.lib.tap import check
from tests.lib.workspace import PATIENCE_S

READY = re.compile(r"^\(gdb\) target remote (\S+)$", re.M)


def last_said(workspace):
    """Return what the session that was started last has said on stderr."""
    with open(workspace.path("said"), encoding="utf-8", errors="replace") as file:
        return file.read()


class DebugSession:
    """The tool, which may not be ready yet; on any free port, unless the options say where."""

    def __init__(self, workspace, directory, *options, env=None):
        self.workspace, self.address = workspace, None
        if not {"--port", "--socket"} & set(options):
            options = ("--port", "0", *options)
        with open(workspace.path("said"), "w") as stderr:
            self.process = workspace.start("debug", directory, *options, env=env, stderr=stderr)

    def said(self):
        """Return what it has said on stderr."""
        return last_said(self.workspace)

    def is_ready(self):
        return READY.search(self.said())

    def wait_until_ready(self):
        """Wait for the address, as `target remote` takes it."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.address:
            over = self.process.poll() is not None or time.monotonic() > deadline
            ready = self.is_ready()
            if ready:
                self.address = ready.group(1)
                break
            check(not over, f"{' '.join(self.process.args)} is not ready: {self.said()}")
            time.sleep(0.01)

    def finish(self, status=0):
        """Wait for its end; return what it said since it was ready (or at all, if it never was)."""
        self.process.wait(PATIENCE_S)
        check(self.process.returncode == status,
              f"{' '.join(self.process.args)}: status {self.process.returncode}, not {status}: "
              f"{self.said()}")
        return READY.split(self.said())[-1].lstrip("\n")

    def end(self, status=0):
        """End it, as Ctrl-C or kill would."""
        self.process.terminate()
        return self.finish(status)


def start_debug(workspace, directory, *options, env=None):
    """Return a session that is ready."""
    session = DebugSession(workspace, directory, *options, env=env)
    session.wait_until_ready()
    return session
