# SPDX-License-Identifier: GPL-2.0-or-later
"""Rare paths made common, as cases of the soak.

    chaos-001 ... 300   what a seed draws (tests/lib/chaos.py): programs of tests/guest on four
                        vCPUs, recorded, and replayed from everywhere

They are short, so that there can be many.  `tests/soak/run --jobs 2 chaos` runs two at a time; a
core for each two vCPUs or so is what makes them race.  `python3 -m tests.lib.chaos SEED` draws and
records the same once more, but its vCPUs run past each other in another way.
"""

from tests.lib import chaos
from tests.soak.cases import Case
from tests.soak.guest import PLACE, Failure

CASES = 300


def drawn(seed):
    def function(recording):
        try:
            return chaos.case(seed, recording.directory, PLACE)
        except AssertionError as failure:
            raise Failure(str(failure)) from None
    return function


def chaos_cases():
    return [Case(f"chaos-{i:03}", drawn(i), False, together=True) for i in range(1, CASES + 1)]
