# SPDX-License-Identifier: GPL-2.0-or-later
"""The long tests of tests/, which `make check` leaves out: long-replay-test_replay and so on."""

import os
import re
import subprocess
import sys

from tests.lib.checkout import TOP
from tests.lib.tap import LONG
from tests.soak.cases import Case
from tests.soak.guest import Failure

PATIENCE_S = 7200
HAS_LONG = re.compile(r"^@long_test|^@test_each\(.*(\n .*)*\blong=", re.M)


def files_with_long_tests():
    """Return {name of a case: module}."""
    found = {}
    for folder, _, files in sorted(os.walk(os.path.join(TOP, "tests"))):
        for name in sorted(files):
            if re.fullmatch(r"test_\w+\.py", name):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    if HAS_LONG.search(file.read()):
                        place = os.path.relpath(path, TOP).removesuffix(".py").split(os.sep)
                        found["-".join(["long", *place[1:]])] = ".".join(place)
    return found


def all_of(module):
    def function(_):
        done = subprocess.run([sys.executable, "-m", module, LONG], cwd=TOP, encoding="utf-8",
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE_S)
        passed = re.findall(r"^ok \d+ - (?!.* # SKIP)(.*)", done.stdout, re.M)
        if done.returncode != 0 or not passed:
            raise Failure(f"python3 -m {module} {LONG}: status {done.returncode}\n"
                          f"{done.stdout[-4000:]}")
        return f"{len(passed)} tests"
    return function


def long_cases():
    return [Case(name, all_of(module), False) for name, module in files_with_long_tests().items()]
