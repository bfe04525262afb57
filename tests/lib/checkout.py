# SPDX-License-Identifier: GPL-2.0-or-later
"""Where things are: the checkout, its build folder, its sources."""

import os
import shutil

from tests.lib.process import run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")


def sources():
    """Every file of the project, committed or about to be."""
    listed = run("git", "-C", TOP, "ls-files", "-co", "--exclude-standard").stdout
    return [f for f in listed.splitlines() if os.path.lexists(os.path.join(TOP, f))]


def copy_of_checkout(directory):
    """The project as a fresh clone would have it, without build/."""
    for name in sources():
        target = os.path.join(directory, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(os.path.join(TOP, name), target, follow_symlinks=False)
    return directory
