# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording of a real guest, damaged by one bit or one truncation, again and again.

The soak does the same a thousand times (tests/soak/damage_cases.py).
"""

import os
import random
import re
import shutil

from tests.lib.damage import (Damage, check_noticed, check_refused, check_repair, files_of,
                              random_damage, spoil)
from tests.lib.guest_recording import GuestWorkspace, kill_recorder
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE

work = GuestWorkspace()
SEED = 5
ROUNDS = 60
REPLAYED = 6                    # one in so many


@work.shared
def raced():
    """A recording of two vCPUs that race, which the tests leave as it was."""
    directory = work.place("raced")
    work.record(directory, "--smp", "2", "--run", "racey -n 2000")
    return directory


@test
def a_recording_as_it_was_made_is_sound():
    done = run(REPRISE, "verify", raced())
    check("is sound up to its end" in done.stdout and "2 vCPUs" in done.stdout, done.stdout)
    check("needs no repair" in run(REPRISE, "repair", raced()).stdout, "repair")


@test
def no_damage_goes_unnoticed():
    directory = raced()
    source = random.Random(SEED)
    for i in range(ROUNDS):
        damage = random_damage(source, directory)
        undo = spoil(directory, damage)
        check_noticed(directory, damage)
        if i % REPLAYED == 0:
            check_refused(directory, damage)
        undo()
    run(REPRISE, "verify", directory)


@test
def the_first_and_the_last_bit_of_each_file_count():
    directory = raced()
    for name in files_of(directory):
        last = os.path.getsize(os.path.join(directory, name)) - 1
        for damage in (Damage(name, 0, 0), Damage(name, last, 7), Damage(name, last, None),
                       Damage(name, 0, None)):
            undo = spoil(directory, damage)
            check_noticed(directory, damage)
            undo()


@test_each(["vcpu-0.order", "vcpu-1.data", "vcpu-0.data"])
def what_is_left_of_a_log_replays(name):
    directory = raced()
    size = os.path.getsize(os.path.join(directory, name))
    damage = Damage(name, size * 2 // 3, 3)
    undo = spoil(directory, damage)
    check(check_repair(directory, damage, work.place("repaired"), replay=True), "not repaired")
    undo()


@work.shared
def ordered():
    """The same run with all orders, in logs of several blocks."""
    directory = work.place("ordered")
    run(REPRISE, "convert", raced(), directory, "--order", "fdr,karma:400,rerun:400")
    return directory


def cut_of(directory):
    said = run(REPRISE, "verify", directory).stdout
    return re.search(r"replays up to ([0-9:,]+):", said).group(1)


@test
def no_damage_to_episodes_goes_unnoticed():
    directory = ordered()
    source = random.Random(SEED)
    logs = [name for name in files_of(directory) if name.endswith((".karma", ".rerun"))]
    check(len(logs) == 6, logs)
    for i in range(ROUNDS // 4):
        name = logs[i % len(logs)]
        size = os.path.getsize(os.path.join(directory, name))
        damage = Damage(name, source.randrange(size), source.choice((None, i % 8)))
        undo = spoil(directory, damage)
        check_noticed(directory, damage)
        if i % REPLAYED == 0:
            check_repair(directory, damage, work.place("repaired"))
        undo()
    run(REPRISE, "verify", directory)


@test_each(["vcpu-0.karma"], long=["vcpu-1.rerun", "vcpu-1.order"])
def a_repair_holds_for_every_order(name):
    directory = shutil.copytree(ordered(), work.place("spoiled"))
    path = os.path.join(directory, name)
    spoil(directory, Damage(name, os.path.getsize(path) * 2 // 3, 3))
    said = run(REPRISE, "repair", directory).stdout
    cut = cut_of(directory)
    check(f"replays up to {cut};" in said and "0:0" not in cut, said)
    for order in ("fdr", "karma", "rerun"):
        to = work.place(f"by-{order}")
        run(REPRISE, "convert", directory, to, "--from", order, "--order", "fdr")
        check(cut_of(to) == cut, f"{order}: {cut_of(to)}, not {cut}")
        run(REPRISE, "convert", directory, to + "-too", "--from", order, "--order", "karma,rerun:0")
        check(cut_of(to + "-too") == cut, f"{order}: {cut_of(to + '-too')}, not {cut}")
        shutil.rmtree(to + "-too")
    _, line = work.replay(directory)
    check(f"replayed up to the cut at position {cut} " in line, line)


@test
def a_killed_recording_is_sound_and_gets_its_cut():
    directory = work.place("killed")
    process = work.start("record", "-o", directory, "--smp", "2", "--run",
                         "while :; do racey; done")
    work.console.wait_for(b"signature=", process)
    # Not while it goes on.
    done = run(REPRISE, "repair", directory, status=2)
    check("is being written" in one_line(done.stderr), done.stderr)
    kill_recorder(process)
    sound = run(REPRISE, "verify", directory).stdout
    cut = re.search(r"is sound, not complete, and replays up to ([0-9:,]+):", sound).group(1)
    said = run(REPRISE, "repair", directory).stdout
    check(f"replays up to {cut};" in said, f"{sound}{said}")
    _, line = work.replay(directory)
    check(f"replayed up to the cut at position {cut} " in line and "not finished; repaired" in line,
          line)


@test
def a_packed_recording_replays():
    copy = work.place("unpacked")
    run(REPRISE, "pack", raced(), copy + ".tar")
    run(REPRISE, "unpack", copy + ".tar", copy)
    os.unlink(copy + ".tar")
    run(REPRISE, "replay", copy)


main(work)
