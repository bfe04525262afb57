# SPDX-License-Identifier: GPL-2.0-or-later
"""Running a command to its end, and looking at processes that do not come to it."""

import subprocess
import time

from tests.lib.tap import check


def run(*args, status=0, timeout=300, **kwargs):
    """Run a command; its exit status must be as expected, or one of those.  Output is text."""
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, timeout=timeout,
                          encoding="utf-8", errors="replace", **kwargs)
    expected = status if isinstance(status, tuple) else (status,)
    check(done.returncode in expected,
          f"{' '.join(args)}: exit status {done.returncode} instead of {status}\n"
          f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def one_line(text):
    """An error for people: exactly one line, which is returned."""
    lines = text.splitlines()
    check(len(lines) == 1, f"not one line but {len(lines)}:\n{text}")
    return lines[0]


def backtraces(pid):
    """Of all threads, by gdb; or why there are none."""
    try:
        done = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 16"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, encoding="utf-8", errors="replace",
                              timeout=60)
        return done.stdout
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        return f"no backtraces: {error}"


def wait_until(what, is_so, patience_s=120):
    """Return when it is so; fail, and say what is wrong, if that takes too long."""
    deadline = time.monotonic() + patience_s
    while not is_so():
        check(time.monotonic() < deadline, what)
        time.sleep(0.02)
