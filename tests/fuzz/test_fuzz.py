# SPDX-License-Identifier: GPL-2.0-or-later
"""A short run of each fuzzer; make soak has the long ones."""

import functools

from tests.fuzz.fuzz import TARGETS, build, clang, fuzz, make_seeds
from tests.lib.tap import check, main, skip, test_each
from tests.lib.tool import built_arches

SECONDS = 5
LEAST = 200                     # inputs, or it was no test


@functools.lru_cache(None)
def prepare():
    if not clang():
        skip("clang, which has libFuzzer, is not installed")
    if "aarch64" not in built_arches():
        skip("no qemu-system-aarch64 was built")
    build()
    make_seeds()


@test_each(TARGETS)
def any_bytes_are_read_or_refused(target):
    prepare()
    status, tried, said = fuzz(target, -1, SECONDS)
    check(status == 0, said)
    check(tried >= LEAST, f"only {tried} inputs:\n{said}")


main()
