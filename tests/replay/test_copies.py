# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of memory that vCPUs keep, translations and blocks of code, at rare moments.

Each is a way in which a recording or its replay once went wrong; bare/copies.c says how.
"""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, info

work = GuestWorkspace()
# What each mode of the guest says, in this order.
SAID = {
    "FORGOTTEN": ["table", "low-pages"],
    "SEVERAL": ["one-line", "whole-line", "two-lines", "two-pages", "tables", "more-tables",
                "remote-code"],
    "OUTSIDE": ["outside"],
    "BRANCHES": ["branches", "odd-jumps"],
    "SUSPENDED": ["suspended"],
}
CACHES = ("x-tlb-bits=6", "x-tlb-bits=12")


def record_mode(mode, cpu, smp, *options):
    """A recording of the guest, and its console output, in which nothing is bad."""
    directory = work.place(f"copies-{mode}")
    output, _ = work.record(directory, *options,
                            *bare_guest.command(BIN, cpu, smp,
                                                bare_guest.build(work, mode, "copies.c")))
    bare_guest.check_console(output.decode(), SAID[mode] + ["two" if smp > 1 else "one"])
    return directory, output


def check_replays(directory, output, *more):
    """With other caches, so that other copies are made at other times."""
    for cache in (*CACHES, *more):
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")


@test
def what_a_replay_from_a_checkpoint_has_not_walked_is_dropped_there_too():
    directory, output = record_mode("FORGOTTEN", "cortex-a72", 2, "--checkpoint-interval", "0.1")
    checkpoints = len(info(directory)["checkpoints"])
    check(checkpoints > 4, f"only {checkpoints} checkpoints: none when it mattered")
    for number in range(checkpoints):
        work.check_replay(directory, output, "--from", str(number))


@test_each(["cortex-a72", "cortex-a76", "max", "cortex-a72 slow-path"])
def several_stores_of_an_instruction_are_one_step(how):
    cpu, *slow = how.split()
    check_replays(*record_mode("SEVERAL", cpu, 2, *(f"--{word}" for word in slow)))


@test_each([1, 2])
def a_walk_that_leads_outside_of_memory_faults_and_replays(smp):
    check_replays(*record_mode("OUTSIDE", "cortex-a72", smp), "one-insn-per-tb=on")


@test_each([1, 2])
def a_vcpu_that_firmware_suspends_replays(smp):
    check_replays(*record_mode("SUSPENDED", "cortex-a72", smp), "one-insn-per-tb=on")


@test_each(["max 1", "max 2"])
def bad_jumps_replay(how):
    """Branch target exceptions, odd addresses."""
    cpu, smp = how.split()
    check_replays(*record_mode("BRANCHES", cpu, int(smp)), "one-insn-per-tb=on")


main(work)
