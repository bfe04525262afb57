# SPDX-License-Identifier: GPL-2.0-or-later
"""The fuzzers of tests/fuzz, as cases of the soak: fuzz-log-01 ... 10, a million inputs each.

What a case has found is kept in build/fuzz/corpus, and the next one goes on from there.
"""

import functools

from tests.fuzz import fuzz
from tests.soak.cases import Case
from tests.soak.guest import Failure

PARTS = 10
RUNS = 1000000
PATIENCE_S = 7200


@functools.lru_cache(None)
def prepare():
    if not fuzz.clang():
        raise Failure("clang, which has libFuzzer, is not installed")
    fuzz.build()
    fuzz.make_seeds()


def part(target):
    def function(_):
        prepare()
        status, tried, said = fuzz.fuzz(target, RUNS, PATIENCE_S)
        if status != 0:
            raise Failure(said[-4000:])
        if tried < RUNS:
            raise Failure(f"only {tried} inputs in {PATIENCE_S} s")
        return f"{tried} inputs"
    return function


def fuzz_cases():
    return [Case(f"fuzz-{target}-{i:02}", part(target), False)
            for target in fuzz.TARGETS for i in range(1, PARTS + 1)]
