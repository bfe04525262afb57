# SPDX-License-Identifier: GPL-2.0-or-later
"""An x86_64 guest with memory above 4 GiB.  It has 5 GiB, of which it uses next to nothing."""

import os
import re
import resource

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, check_race
from tests.lib.tap import check, main, test, test_each
from tests.lib.time_travel import ACCESS, travel
from tests.lib.tool import BIN, info, need

work = GuestWorkspace()
SAID = ["words", "code", "tables", "stack", "dma"] * 2 + ["interrupts"]
LOW, TOP = 0x100000000, 0x1a0000000
LAST, DMA = 0x6800, 0x6000      # of far.c
MOST_BYTES = 64 << 20           # of a recording
MOST_MEMORY = 1 << 30           # of an emulator


def size_of(directory):
    return sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(directory) for name in names)


def record(*options):
    need("x86_64")
    directory = work.place("far-x86")
    kernel = bare_guest.build_x86(work, "far.c", 1)
    output, _ = work.record(directory, "--digest-interval", "1000", *options,
                            *bare_guest.x86_command(BIN, kernel, smp=2, memory_mib=5 << 10))
    bare_guest.check_console(output.decode(), SAID)
    check_race(directory)
    return directory, output


recorded = work.shared(record)


@test
def it_replays_identically():
    directory, output = recorded()
    work.check_replay(directory, output)
    work.check_replay(directory, output, "--threads", "single", "--", "-accel",
                      "tcg,thread=multi,x-tlb-bits=6")


@test
def it_replays_from_a_checkpoint():
    directory, output = record("--checkpoint-interval", "0.02", "--chaos", "3")
    n = len(info(directory)["checkpoints"])
    check(n >= 2, f"{n} checkpoints")
    work.check_replay(directory, output, "--from", str(n // 2))


@test
def memory_that_is_not_used_costs_nothing():
    directory, _ = recorded()
    check(size_of(directory) < MOST_BYTES, f"{size_of(directory)} bytes")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10
    check(most < MOST_MEMORY, f"an emulator used {most} bytes")


@test_each(["LOW", "TOP"])
def what_is_there_can_be_watched(where):
    directory, _ = recorded()
    base = globals()[where]
    first, size = base + DMA - 30, LAST + 8 - (DMA - 30)
    shown, said = work.replay(directory, "--watch", f"{first:#x},{size},writes")
    check("replayed identically" in said, said)
    shown = shown.decode()
    told = re.findall(rf"^0:\d+ store {base + LAST:#x},8 pc 0x\w+ (\w+) -> (\w+)$", shown, re.M)
    check(told == [("0x0", "0x1"), ("0x1", "0x2")], shown)
    check(len(re.findall(r"^dma:\d+ dma ", shown, re.M)) >= 20, shown)


@test
def what_is_there_can_be_debugged():
    directory, _ = recorded()
    with travel(work, directory, "--at", "end") as session:
        for base in (LOW, TOP):
            session.goto("end")
            told = ACCESS.fullmatch(session.monitor(f"last-write {base + LAST:#x} 8").strip())
            check(told and told[2] == "vCPU 0" and told.group(8, 9) == ("0x1", "0x2"), told)
            session.gdb.command(f"watch *(unsigned long *){base + LAST:#x}")
            stop = session.gdb.go("reverse-continue")
            check(session.moment() == int(told[1]) and stop.pc == int(told[7], 16), stop)
            check(session.gdb.value(f"*(unsigned long *){base + LAST:#x}") == 1, session.gdb)
            session.gdb.command("delete")


main(work)
