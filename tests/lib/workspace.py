# SPDX-License-Identifier: GPL-2.0-or-later
"""A directory of one file of tests: its recordings, the guests' console, what the tests share.

The directory is made when a path in it is first asked for.  tap.main() removes it at the end.  If a
test fails, the recording that this test used last is kept, and the command that replays it is
printed.
"""

import contextlib
import functools
import inspect
import os
import shlex
import shutil
import tempfile
import time

from tests.lib.tap import check
from tests.lib.tool import REPRISE

PATIENCE_S = 300
PARTS = ("manifest", "vcpu-0.order", "checkpoint-0")        # of a recording, however damaged it is


class Console:
    """What a guest has shown, in a file: bytes, to be compared as such."""

    def __init__(self, path):
        self.path = path

    def read(self):
        with open(self.path, "rb") as file:
            return file.read()

    def wait_for(self, word, process):
        """Return when @word is shown; fail if @process, which shows it, ends first."""
        deadline = time.monotonic() + PATIENCE_S
        while word not in self.read():
            check(process.poll() is None, f"it ended before {word!r} appeared:\n{self.read()}")
            check(time.monotonic() < deadline, f"{word!r} did not appear in:\n{self.read()}")
            time.sleep(0.02)


class Workspace:
    """Owned by a file of tests, from its first line to its end."""

    def __init__(self):
        self._directory = None
        self._places = {}           # paths by name, where the name alone does not tell
        self._cache = {}            # what tests share, by the function that makes it
        self._used = []             # (path, command) of the test at hand, the latest last
        self._kept = []             # paths

    @property
    def directory(self):
        if self._directory is None:
            self._directory = tempfile.mkdtemp(prefix="reprise-tests-")
        return self._directory

    @property
    def console(self):
        return Console(self.path("console"))

    def path(self, name):
        """Return where a file, or the recording that was placed under this name, is."""
        return self._places.get(name) or os.path.join(self.directory, name)

    def place(self, name):
        """Return a path for a recording that is not there yet."""
        path, number = os.path.join(self.directory, name), 1
        while path in self._kept:
            number += 1
            path = os.path.join(self.directory, f"{name}+{number}")
        shutil.rmtree(path, ignore_errors=True)
        self._places[name] = path
        self.use(path)
        return path

    # --- what tests share ---

    def shared(self, function):
        """Decorate a function, so that it is called once for all tests, for each argument.

        A call that fails is made again by the next test.
        """
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*args):
            bound = signature.bind(*args)
            bound.apply_defaults()
            key = function, bound.args
            if key not in self._cache:
                self._cache[key] = function(*args)
            value = self._cache[key]
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, str) and part.startswith(f"{self._directory}/"):
                    self.use(part)
            return value
        return wrapper

    # --- what a failure leaves ---

    def use(self, path, command=None):
        """Note that the test at hand uses a recording; @command replays it, if not as usual."""
        self._used.append((path, command))

    def begin_test(self):
        self._used.clear()

    def _used_last(self):
        """Return the recording that the test at hand used last, or None."""
        return next((path for path, _ in reversed(self._used)
                     if any(os.path.exists(os.path.join(path, part)) for part in PARTS)), None)

    def keep(self):
        """Keep the recording of a test that failed; return the command that replays it, or None."""
        path = self._used_last()
        if not path:
            return None
        self._kept.append(path)
        commands = [command for used, command in self._used if used == path and command]
        return shlex.join(commands[-1] if commands else replay_command(path))

    def _is_kept(self, path):
        """Return true for a kept recording, files that belong to it, and a folder around it."""
        return any(kept == path or path.startswith(f"{kept}.") or kept.startswith(f"{path}/")
                   for kept in self._kept)

    def close(self):
        """Remove all that is not kept."""
        if self._directory is None:
            return
        for entry in list(os.scandir(self._directory)):
            if self._is_kept(entry.path):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        with contextlib.suppress(OSError):      # not empty
            os.rmdir(self._directory)
        self._directory = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def replay_command(directory, *args, prefix=(), env=None):
    """Return a command that replays a recording; @env: its environment, if it is not ours."""
    changed = {name: value for name, value in (env or {}).items() if os.environ.get(name) != value}
    if "REPRISE_QEMU_DIR" in os.environ:
        changed.setdefault("REPRISE_QEMU_DIR", os.environ["REPRISE_QEMU_DIR"])
    variables = ["env", *(f"{name}={value}" for name, value in sorted(changed.items()))]
    return [*(variables if changed else []), *prefix, REPRISE, "replay", directory, *args]
