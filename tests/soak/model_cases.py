# SPDX-License-Identifier: GPL-2.0-or-later
"""The random tester of tests/protocol/model, as cases of the soak.

    model-01 ... 20             50,000 seeds each, a million in all: a seed decides who goes on
    model-any-01 ... 10         50,000 seeds each, of which each draws the orders that it records
    model-threads-01 ... 04     20,000 seeds each, with real threads
    model-tsan-01, 02           2,000 seeds each, watched by ThreadSanitizer
"""

import os
import re
import subprocess

from tests.lib.checkout import BUILD
from tests.soak.cases import Case
from tests.soak.guest import Failure

# Name of the cases: tester, the orders of steps that it records, how many cases, seeds of each.
TESTERS = {
    "model": ("sphere-tester", "all", 20, 50000),
    "model-any": ("sphere-tester", "any", 10, 50000),
    "model-threads": ("sphere-tester-threads", "any", 4, 20000),
    "model-tsan": ("sphere-tester-tsan", "any", 2, 2000),
}
PATIENCE_S = 7200


def part(tester, order, first, seeds):
    command = [f"{BUILD}/core/tests/protocol/model/{tester}", "--order", order,
               "--first", str(first), "--seeds", str(seeds)]

    def function(_):
        if not os.path.exists(command[0]):
            raise Failure(f"no {command[0]}: the compiler has no ThreadSanitizer?")
        done = subprocess.run(command, encoding="utf-8", stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE_S,
                              env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"})
        tried = re.search(r"^(\d+) seeds", done.stdout, re.M)
        if done.returncode != 0 or not tried or int(tried.group(1)) != seeds:
            raise Failure(f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout.strip()
    return function


def model_cases():
    return [Case(f"{name}-{i + 1:02}", part(tester, order, 1 + i * seeds, seeds), False,
                 together=True)
            for name, (tester, order, n, seeds) in TESTERS.items() for i in range(n)]
