# SPDX-License-Identifier: GPL-2.0-or-later
"""A real gdb in recordings of x86_64 guests: what aarch64 guests do not have.

Repeated instructions, deliveries that push a frame, real mode, page tables without the kernel, and
data breakpoints of the guest.
"""

import contextlib
import re
import subprocess

from tests.guest import bare_guest
from tests.lib.debug_session import start_debug
from tests.lib.gdb import Gdb, symbols
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.process import run
from tests.lib.qmp import Qmp
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.time_travel import ACCESS, MEM_MIB, TRAVEL_S, travel
from tests.lib.tool import BIN, REPRISE, need

work = GuestWorkspace()
WORDS = 512                     # in a page
ADD_BYTES = 3                   # of incq (%rax)
POWER_ON, FIRST_JUMP = 0xfffffff0, 0xfe05b      # linear addresses; SeaBIOS jumps to the latter


@work.shared
def recorded():
    """With page-table isolation, though this CPU is trusted otherwise."""
    directory = work.place("x86")
    work.record(directory, "--checkpoint-interval", "1", "--", *stock_command(
        "forkstorm -t 2 -n 4; pipes -t 2 -n 20", smp=2, arch="x86_64",
        boot=("--mem", str(MEM_MIB), "--append", "pti=on")))
    return directory


@contextlib.contextmanager
def in_the_middle():
    """A session, and its gdb, which knows the kernel."""
    with travel(work, recorded(), "--at", "end", vmlinux=symbols("x86_64")) as session:
        session.goto((session.first + session.last) * 3 // 4)
        yield session, session.gdb


def find_repeated_store(gdb):
    """Return the address of the instruction with which the kernel clears a page."""
    found = re.search(r"(0xf\w+) <\+\d+>:\trep stos", gdb.command("disassemble clear_page_rep"))
    check(found, gdb)
    return found.group(1)


def go_to_repeated_store(gdb):
    """Stop where a vCPU begins to clear a page; others may be in the middle of another one."""
    gdb.command(f"tbreak *{find_repeated_store(gdb)} if $rcx == {WORDS}")
    stop = gdb.go("continue", TRAVEL_S)
    check(stop.reason == "breakpoint-hit" and gdb.value("$rcx") == WORDS, gdb)
    return stop


@test
def a_repeated_instruction_is_met_at_each_iteration():
    with in_the_middle() as (session, gdb):
        def place_of(stop):
            return session.when()[1][stop.thread - 1], session.moment()

        stop = go_to_repeated_store(gdb)
        seen, thread = [place_of(stop)], stop.thread
        gdb.command(f"break *{stop.pc} thread {thread}")
        for left in (WORDS - 1, WORDS - 2):
            stop = gdb.go("continue")
            check(stop.reason == "breakpoint-hit" and gdb.value("$rcx") == left, gdb)
            seen.append(place_of(stop))
        check(seen[2][0] - seen[0][0] == 2, seen)
        for left, (_, moment) in ((WORDS - 1, seen[1]), (WORDS, seen[0])):
            gdb.go("reverse-continue")
            check(session.moment() == moment and gdb.value("$rcx") == left, gdb)
        # From behind the instruction, the last iteration comes first.
        gdb.command("delete")
        stop = gdb.go("finish")
        gdb.command(f"break *{find_repeated_store(gdb)} thread {thread}")
        for left in (1, 2, 3):
            stop = gdb.go("reverse-continue")
            check(stop.reason == "breakpoint-hit" and gdb.value("$rcx") == left, gdb)


@test
def a_repeated_store_is_met_at_its_iteration():
    """Forwards behind it, backwards before it."""
    with in_the_middle() as (session, gdb):
        stop = go_to_repeated_store(gdb)
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
    with in_the_middle() as (session, gdb):
        gdb.command("hbreak *asm_sysvec_apic_timer_interrupt")
        stop = gdb.go("continue", TRAVEL_S)
        gdb.command("delete")
        (now, places), stack = session.when(), gdb.value("$sp")
        interrupted = gdb.value("*(unsigned long *)$sp")
        told = ACCESS.fullmatch(session.monitor(f"last-write {stack:#x} 8").strip())
        check(told and told[4] == "delivery" and int(told[9], 16) == interrupted, told)
        # Its last step; the other vCPU may have gone on since.
        pushed, place = int(told[1]), places[stop.thread - 1]
        check(told[2] == f"vCPU {stop.thread - 1}" and int(told[3]) == place - 1,
              f"{now} {places}: {told[0]}")
        # Before that step, the vCPU is where it was interrupted, and the frame is not there.
        gdb.command(f"awatch *(unsigned long *){stack:#x}")
        stop = gdb.go("reverse-continue")
        check(stop.reason == "access-watchpoint-trigger", stop)
        check(session.moment() == pushed and stop.pc == interrupted == int(told[7], 16), stop)
        check(gdb.value(f"*(unsigned long *){stack:#x}") == int(told[8], 16), gdb)
        stop = gdb.go("continue")
        check(session.when()[1][stop.thread - 1] == place, session.when())
        check(stop.function.startswith("asm_sysvec_apic_timer"), stop)


@test
def the_kernel_is_seen_from_user_mode():
    """Of its memory, the tables of user mode have next to nothing."""
    with in_the_middle() as (session, gdb):
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
def watchpoints_and_the_guests_own_are_on_the_same_bytes():
    """The debugger stands between the access and the guest's trap, which comes all the same."""
    need("x86_64")
    directory = work.place("points")
    kernel = bare_guest.build_x86(work, "points.c")
    work.record(directory, "--digest-interval", "1000", *bare_guest.x86_command(BIN, kernel))
    with travel(work, directory, vmlinux=kernel) as session:
        gdb = session.gdb
        gdb.command("awatch *(long *)((char *)&area + 256)")
        stop = gdb.go("continue", TRAVEL_S)
        check(stop.reason == "access-watchpoint-trigger", stop)
        there = session.moment()
        handler = gdb.value("(long)&vectors") + 16
        # The step that traps, and the delivery of the exception, which are behind the access.
        gdb.go("stepi 2")
        check(session.moment() == there + 2 and gdb.value("$pc") == handler, session.when())
        check(gdb.value("*(long *)$sp") == stop.pc, gdb)
        for _ in range(2):
            gdb.go("reverse-stepi")
        check(session.moment() == there and gdb.value("$pc") == stop.pc, session.when())
        session.goto("end")
        ended = session.digests()
        # A snapshot between the two has what the guest's breakpoint has hit.
        session.goto(there)
        gdb.command("tbreak note_hit")
        found = gdb.go("continue")
        check(found.function == "note_hit" and gdb.value("*(long *)($rdi + 88)") == stop.pc, found)
        found = gdb.go("reverse-continue")
        check(found.reason == "access-watchpoint-trigger", found)
        check(session.moment() == there - 1, session.when())
        session.goto("end")
        check(session.digests() == ended, session.digests())


@contextlib.contextmanager
def between_an_access_and_the_guests_trap(how, **options):
    """A debugger of a guest that is recorded stands there: directory, guest's command, QMP."""
    need("x86_64")
    directory, qmp_path, path = work.place("ended"), work.path("qmp"), work.path("live")
    kernel = bare_guest.build_x86(work, "raises.c")
    command = bare_guest.x86_command(BIN, kernel)[1:]
    # Not by the tool: that would let the guest run before gdb does.
    process = subprocess.Popen([*command, "-S", "-qmp",
                                f"unix:{qmp_path},server=on,wait=off", "-gdb",
                                f"unix:{path},server=on,wait=off"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    after_test(process.wait)
    after_test(process.kill)
    work.use(directory)
    qmp = Qmp(qmp_path, process)
    answer = qmp("recorder-start", directory=directory, **{"digest-interval": 1000}, **options)
    check(answer == {"return": {}}, answer)
    with Gdb(kernel) as gdb:
        gdb.connect(path)
        gdb.command("watch *(long *)&words")
        stop = gdb.go("continue")
        check(stop.reason == "watchpoint-trigger", stop)
        if how == "stepi":                      # over the next access of that kind
            gdb.command("delete")
            gdb.command(f"tbreak *{stop.pc - ADD_BYTES:#x}")
            gdb.go("continue")
            gdb.go("stepi")
            check(gdb.value("$pc") == stop.pc, gdb)
        yield directory, command, qmp
        check(qmp("recorder-stop", pause=True) == {"return": {}}, "recorder-stop")
        qmp("quit")
        qmp.close()
    process.wait(TRAVEL_S)
    _, said = work.replay(directory)
    check("replayed identically" in said, said)


@test_each(["continue", "stepi"])
def a_recording_ends_between_an_access_and_the_guests_trap(how):
    """The trap comes after the recording."""
    with between_an_access_and_the_guests_trap(how):
        pass


@test_each(["continue", "stepi"])
def a_guest_goes_on_live_between_an_access_and_its_trap(how):
    """The trap comes, also if the guest is recorded again from there."""
    with between_an_access_and_the_guests_trap(how, **{"live-checkpoints": True}) as started:
        directory, command, qmp = started
        check(qmp("recorder-checkpoint")["return"]["name"] == "checkpoint-1", "its name")
        qmp.event("RECORDER_CHECKPOINT")
    plain = run(*command).stdout
    check("raised" in plain, plain)
    live = run(REPRISE, "live", directory, "--from", "1", "--", *command).stdout
    check(live == plain, f"plain:\n{plain}\nlive:\n{live}")
    again = work.place("again")
    output, _ = work.record(again, "--continue", directory, "--from", "1", "--", *command)
    recorded_again = output.decode().replace("\r", "")
    check(recorded_again == plain, f"plain:\n{plain}\nrecorded:\n{recorded_again}")
    work.check_replay(again, output)


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


@test
def registers_are_as_after_a_reset_again():
    """QEMU saves some only if they are not."""
    need("x86_64")
    directory, path = work.place("forgotten"), work.path("qmp")
    work.record(directory, "--digest-interval", "1000", *bare_guest.x86_command(
        BIN, bare_guest.build_x86(work, "forgotten.c")))
    session = start_debug(work, directory, "--at", "end", "--qmp", path)
    qmp = Qmp(path, session.process)
    places = {"end": qmp("query-recorder-digests")}
    last = qmp("query-recorder")["return"]["last-moment"]
    for at in ("start", last // 2, "end", last // 2, "start", "end"):
        went = qmp("recorder-goto", at=str(at))
        check(went == {"return": {}}, f"{at}: {went}")
        seen = qmp("query-recorder-digests")
        check(places.setdefault(at, seen) == seen, f"{at}: {seen}, not {places[at]}")
    qmp.close()
    session.end()


main(work)
