# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk that fails when a test says so: tests/tools/failing-io.c, which programs preload."""

import contextlib
import os

from tests.lib import guest_recording as recording
from tests.lib.checkout import BUILD

RULE = os.path.join(recording.TOP, "rule")


def failing_env():
    """The environment of a program that is to fail."""
    return {**os.environ, "FAILING_IO": RULE,
            "LD_PRELOAD": os.path.join(BUILD, "core/tests/tools/failing-io.so")}


def let_fail(what, count, pattern):
    """From now on; a new rule counts from the start, also if it is the same."""
    with open(RULE + ".new", "w") as file:
        print(what, count, pattern, file=file)
    os.rename(RULE + ".new", RULE)


def let_work():
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RULE)
