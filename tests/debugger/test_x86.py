# SPDX-License-Identifier: GPL-2.0-or-later
"""A real gdb in recordings of x86_64 guests: what aarch64 guests do not have.

Repeated instructions, deliveries that push a frame, real mode, and page tables without the kernel.
"""

import re

from tests.lib.gdb import symbols
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.process import run
from tests.lib.tap import check, main, test
from tests.lib.time_travel import ACCESS, MEM_MIB, TRAVEL_S, travel
from tests.lib.tool import REPRISE

work = GuestWorkspace()
WORDS = 512                     # in a page
POWER_ON, FIRST_JUMP = 0xfffffff0, 0xfe05b      # linear addresses; SeaBIOS jumps to the latter


@work.shared
def recorded():
    """With page-table isolation, though this CPU is trusted otherwise."""
    directory = work.place("x86")
    work.record(directory, "--checkpoint-interval", "1", "--", *stock_command(
        "forkstorm -t 2 -n 4; pipes -t 2 -n 20", smp=2, arch="x86_64",
        boot=("--mem", str(MEM_MIB), "--append", "pti=on")))
    return directory


def session_with_symbols():
    return travel(work, recorded(), "--at", "end", vmlinux=symbols("x86_64"))


def go_to_middle(session):
    session.goto((session.first + session.last) * 3 // 4)


def find_repeated_store(gdb):
    """Return the address of the instruction with which the kernel clears a page."""
    found = re.search(r"(0xf\w+) <\+\d+>:\trep stos", gdb.command("disassemble clear_page_rep"))
    check(found, gdb)
    return found.group(1)


@test
def a_repeated_instruction_is_met_at_each_iteration():
    with session_with_symbols() as session:
        gdb = session.gdb
        go_to_middle(session)
        gdb.command(f"break *{find_repeated_store(gdb)}")
        seen = []
        for left in (WORDS, WORDS - 1, WORDS - 2):
            stop = gdb.go("continue")
            check(stop.reason == "breakpoint-hit" and gdb.value("$rcx") == left, gdb)
            seen.append((session.when()[1][stop.thread - 1], session.moment()))
        check(seen[2][0] - seen[0][0] == 2, seen)
        for left, (_, moment) in ((WORDS - 1, seen[1]), (WORDS, seen[0])):
            gdb.go("reverse-continue")
            check(session.moment() == moment and gdb.value("$rcx") == left, gdb)
        # From behind the instruction, the last iteration comes first.
        gdb.command("delete")
        stop = gdb.go("finish")
        gdb.command(f"break *{find_repeated_store(gdb)}")
        for left in (1, 2, 3):
            stop = gdb.go("reverse-continue")
            check(stop.reason == "breakpoint-hit" and gdb.value("$rcx") == left, gdb)


@test
def a_repeated_store_is_met_at_its_iteration():
    """Forwards behind it, backwards before it."""
    with session_with_symbols() as session:
        gdb = session.gdb
        go_to_middle(session)
        gdb.command(f"tbreak *{find_repeated_store(gdb)}")
        stop = gdb.go("continue")
        page, thread = gdb.value("$rdi"), stop.thread
        gdb.command(f"awatch *(long *){page + 80:#x}")
        gdb.command(f"awatch *(long *){page + 88:#x}")
        for words in (11, 12):
            stop = gdb.go("continue")
            check(stop.reason == "access-watchpoint-trigger" and stop.thread == thread, stop)
            check(gdb.value("$rdi") == page + 8 * words, f"{words}: {gdb}")
        told = ACCESS.fullmatch(session.monitor(f"last-write {page + 80:#x} 8").strip())
        check(told and told[4] == "store" and told[9] == "0x0", told)
        for words in (11, 10):
            stop = gdb.go("reverse-continue")
            check(stop.reason == "access-watchpoint-trigger" and stop.thread == thread, stop)
            check(gdb.value("$rdi") == page + 8 * words, f"{words}: {gdb}")
        check(session.moment() == int(told[1]) and stop.pc == int(told[7], 16), told[0])
        # A single step tells of what it accesses, too.
        check(gdb.go("stepi").reason == "access-watchpoint-trigger", gdb)
        check(gdb.go("reverse-stepi").reason == "access-watchpoint-trigger", gdb)
        check(session.moment() == int(told[1]), session.when())


@test
def the_pushes_of_an_interrupt_are_told_and_met():
    with session_with_symbols() as session:
        gdb = session.gdb
        go_to_middle(session)
        gdb.command("hbreak *asm_sysvec_apic_timer_interrupt")
        stop = gdb.go("continue", TRAVEL_S)
        gdb.command("delete")
        now, stack = session.moment(), gdb.value("$sp")
        interrupted = gdb.value("*(unsigned long *)$sp")
        told = ACCESS.fullmatch(session.monitor(f"last-write {stack:#x} 8").strip())
        check(told and told[4] == "delivery" and int(told[9], 16) == interrupted, told)
        check(int(told[1]) == now - 1 and told[2] == f"vCPU {stop.thread - 1}", f"{now}: {told[0]}")
        # Before that step, the vCPU is where it was interrupted, and the frame is not there.
        gdb.command(f"awatch *(unsigned long *){stack:#x}")
        stop = gdb.go("reverse-continue")
        check(stop.reason == "access-watchpoint-trigger", stop)
        check(session.moment() == now - 1 and stop.pc == interrupted == int(told[7], 16), stop)
        check(gdb.value(f"*(unsigned long *){stack:#x}") == int(told[8], 16), gdb)
        stop = gdb.go("continue")
        check(session.moment() == now and stop.function.startswith("asm_sysvec_apic_timer"), stop)


@test
def the_kernel_is_seen_from_user_mode():
    """Of its memory, the tables of user mode have next to nothing."""
    with session_with_symbols() as session:
        gdb = session.gdb
        go_to_middle(session)
        gdb.command("hbreak *entry_SYSCALL_64")
        gdb.go("continue", TRAVEL_S)
        gdb.command("delete")
        ticks = gdb.value("jiffies_64")
        stop = gdb.go("reverse-stepi")
        check(gdb.value("$cs") & 3 == 3 and gdb.value("$cr3") & 0x1000, "no isolation")
        check("syscall" in gdb.command("x/i $pc"), stop)
        check(gdb.value("jiffies_64") == ticks, gdb)
        told = ACCESS.fullmatch(session.monitor(f"last-write {gdb.value('&jiffies_64')} 8").strip())
        check(told and int(told[9], 16) == ticks, told)


@test
def real_mode_is_debugged_by_linear_addresses():
    with travel(work, recorded()) as session:
        gdb = session.gdb
        check(gdb.value("$pc") == POWER_ON, gdb)
        check(gdb.go("stepi").pc == FIRST_JUMP, gdb)
        gdb.go("stepi 3")
        check(gdb.value("$pc") >> 16 == 0xf and gdb.value("$cs") == 0xf000, gdb)
        there = session.moment(), gdb.value("$pc")
        gdb.command(f"break *{FIRST_JUMP:#x}")
        for command in ("reverse-continue", "reverse-continue", "continue"):
            stop = gdb.go(command)
        check(stop.reason == "breakpoint-hit" and stop.pc == FIRST_JUMP, stop)
        check(session.moment() == 1, session.when())
        gdb.go("stepi 3")
        check((session.moment(), gdb.value("$pc")) == there, session.when())
        # Its first push, and who made it.
        gdb.command("delete")
        gdb.go("stepi 2000")
        stack = gdb.value("$ss * 16 + $sp") if gdb.value("$cr0") & 1 == 0 else gdb.value("$sp")
        told = session.monitor(f"last-write {stack:#x} 2").strip()
        check(ACCESS.fullmatch(told) or "nobody has written" in told, told)


@test
def our_gdb_decodes_16_and_32_bits():
    """Which gdb refuses to do by `set architecture`."""
    commands = ["bits 16", "x/i $pc", "stepi", "x/i $pc", "p $eip", "reverse-stepi", "p $eip",
                "bits 32", "goto 2000000", "p $eip == $pc", "x/i $pc", "bits 64", "p $rip == $pc",
                "bits 8"]
    done = run(REPRISE, "debug", recorded(), "--gdb", "--", "-q", "-nx", "-batch",
               *(word for command in commands for word in ("-ex", command)), timeout=TRAVEL_S)
    said = done.stdout + done.stderr
    check(re.search(r"=> 0xfffffff0:\tljmp +\$0xf000,\$0xe05b\n", said), said)
    check(re.search(r"=> 0xfe05b:\tcmp", said), said)
    check(f"= {FIRST_JUMP}\n" in said and f"= {POWER_ON}\n" in said, said)
    check(len(re.findall(r"^\$\d+ = 1$", said, re.M)) == 2, said)
    check("bits 16, bits 32 or bits 64" in said, said)


main(work)
