# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk that fails when a test says so: tests/tools/failing-io.c, which programs preload."""

import contextlib
import os

from tests.lib.checkout import BUILD


class FaultyDisk:
    """Works until let_fail()."""

    def __init__(self, workspace):
        self.workspace = workspace

    @property
    def rule(self):
        return self.workspace.path("rule")

    def env(self):
        """Return the environment of a program whose disk this is."""
        return {**os.environ, "FAILING_IO": self.rule,
                "LD_PRELOAD": os.path.join(BUILD, "core/tests/tools/failing-io.so")}

    def let_fail(self, what, count, pattern):
        """Fail from now on; a new rule counts from the start, also if it is the same."""
        with open(self.rule + ".new", "w") as file:
            print(what, count, pattern, file=file)
        os.rename(self.rule + ".new", self.rule)

    def let_work(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.rule)
