# SPDX-License-Identifier: GPL-2.0-or-later
"""A file by which only one process at a time does something."""

import fcntl


def take(path):
    """The lock, to be kept until its end; None if another process has it."""
    lock = open(path, "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock
