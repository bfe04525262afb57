# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of no guest, that make-recording writes: complete, small, and there at once."""

import contextlib
import os
import tempfile

from tests.lib.checkout import BUILD
from tests.lib.process import run

MAKE = os.path.join(BUILD, "core/tests/tools/make-recording")
FILES = ("manifest", "vcpu-0.order", "vcpu-0.data", "vcpu-1.order", "vcpu-1.data", "dma.order",
         "checkpoint-0/cpus", "checkpoint-0/devices", "checkpoint-0/sums", "checkpoint-0/ram")


@contextlib.contextmanager
def folder_of_recording(*how):
    """A new directory with "recording" in it."""
    with tempfile.TemporaryDirectory(prefix="reprise-made-") as folder:
        run(MAKE, os.path.join(folder, "recording"), *how)
        yield folder


@contextlib.contextmanager
def recording(*how):
    with folder_of_recording(*how) as folder:
        yield os.path.join(folder, "recording")
