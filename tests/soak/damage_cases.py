# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged recordings, as cases of the soak: a hundred damages each.

    damage-01 ... 10
    damage-karma-01, 02     of recordings in Karma's order
    damage-x86-01 ... 03    of x86_64 guests

Each case makes a recording of its own and spoils it by one bit or one truncation, a hundred
times.  Each must be noticed by verify and refused by replay; of each a copy is
repaired, and some of those are replayed.
"""

import random

from tests.lib.damage import (Unnoticed, check_noticed, check_refused, check_repair, random_damage,
                              spoil)
from tests.soak.cases import Case
from tests.soak.guest import Failure

CASES = 10
KARMA_CASES = 2
X86_CASES = 3
ROUNDS = 100
REPAIRED_REPLAYED = 20          # one in so many
RUN = "racey -n 2000"


def one_round(recording, source, replay):
    damage = random_damage(source, recording.directory)
    undo = spoil(recording.directory, damage)
    check_noticed(recording.directory, damage)
    check_refused(recording.directory, damage)
    repaired = check_repair(recording.directory, damage, recording.path("repaired"), replay)
    undo()
    return repaired


def damaged(seed, options=(), arch="aarch64"):
    def function(recording):
        source = random.Random(seed)
        recording.arch = arch
        recording.record(RUN, smp=2, options=options)
        try:
            repaired = sum(one_round(recording, source, i % REPAIRED_REPLAYED == 0)
                           for i in range(ROUNDS))
        except Unnoticed as what:
            # The damage is still there, to be looked at.
            raise Failure(f"seed {seed}: {what}") from None
        recording.replay()
        return f"{repaired} of {ROUNDS} repaired"
    return function


def damage_cases():
    karma = ["--order", "karma"]
    return [*(Case(f"damage-{i:02}", damaged(i), False) for i in range(1, CASES + 1)),
            *(Case(f"damage-karma-{i:02}", damaged(i, karma), False)
              for i in range(1, KARMA_CASES + 1)),
            *(Case(f"damage-x86-{i:02}", damaged(i, arch="x86_64"), False)
              for i in range(1, X86_CASES + 1))]
