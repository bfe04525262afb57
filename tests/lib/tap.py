# SPDX-License-Identifier: GPL-2.0-or-later
"""A test is a function; what a file of tests prints is TAP.

    from tests.lib.tap import check, main, test

    @test
    def something_holds():
        check(1 + 1 == 2, "arithmetic")

    main()

A test passes when it returns, fails when it raises, and is skipped with skip(reason) when this
machine cannot run it.  tests/run runs all files; `python3 -m tests.FOLDER.test_NAME [WORD ...]`,
from the top of the checkout, runs one, or those of its tests whose name has one of the words.

A long test varies what another one of its file tests.  `make check` leaves it out; the soak runs it
(`python3 -m tests.FOLDER.test_NAME --long`).
A file whose tests make recordings has a workspace (workspace.py) and gives it to main().
"""

import contextlib
import os
import sys
import traceback

LONG = "--long"                 # the argument that asks for long tests alone

_tests = []
_long = set()                   # their names
_cleanups = []


class Skip(Exception):
    pass


def test(function):
    _tests.append((function.__name__, function))
    return function


def long_test(function):
    _long.add(function.__name__)
    return test(function)


def test_each(values, long=()):
    """A test per value; the function gets the value.  For the values of @long they are long."""
    def decorate(function):
        for value in [*values, *long]:
            name = f"{function.__name__}[{value}]"
            _tests.append((name, lambda value=value: function(value)))
            if value in long:
                _long.add(name)
        return function
    return decorate


def skip(reason):
    raise Skip(reason)


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


def after_test(function, *args):
    """Call this when the test has ended, however it did."""
    _cleanups.append(lambda: function(*args))


@contextlib.contextmanager
def cleaned_up():
    """Where a test ends."""
    try:
        yield
    finally:
        while _cleanups:
            _cleanups.pop()()


def _run_one(number, name, function, workspace):
    try:
        if workspace:
            workspace.begin_test()
        with cleaned_up():
            function()
        print(f"ok {number} - {name}", flush=True)
        return True
    except Skip as reason:
        print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        return True
    except Exception:                           # the next test runs all the same
        for line in traceback.format_exc().splitlines():
            print(f"# {line}")
        command = workspace.keep() if workspace else None
        if command:
            print(f"# the recording is kept; to replay it: {command}")
        print(f"not ok {number} - {name}", flush=True)
        return False


def main(workspace=None):
    """Run all tests of this file but the long ones, or those that the command line names.

    Does not return.
    """
    wanted = sys.argv[1:]
    if wanted in ([], [LONG]):
        tests = [t for t in _tests if (t[0] in _long) == bool(wanted)]
    else:
        tests = [t for t in _tests if any(w in t[0] for w in wanted)]
    if not tests:
        sys.exit(f"no test is long or has a name with {' or '.join(wanted)}")
    print(f"1..{len(tests)}", flush=True)
    with workspace or contextlib.nullcontext():
        results = [_run_one(i, *t, workspace) for i, t in enumerate(tests, 1)]
    sys.exit(0 if all(results) else 1)
