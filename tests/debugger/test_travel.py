# SPDX-License-Identifier: GPL-2.0-or-later
"""Debugging a recording forwards and backwards, with a real gdb."""

import contextlib
import re
import socket
import time

from tests.lib.gdb import Gdb, symbols
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test, test_each
from tests.lib.time_travel import (ACCESS, TRAVEL_S, judge, met_an_end, record_race, travel,
                                   wander)
from tests.lib.tool import REPRISE, info

work = GuestWorkspace()
STOPS = 24
AT_ONCE_S = 5               # on a host that is busy with other things


ARCHES = ["aarch64", "x86_64"]
REGISTER = {"aarch64": "x0", "x86_64": "rax"}


@work.shared
def recorded_once(smp, arch):
    return record_race(work, smp, arch)


def recorded(smp=2, arch="aarch64"):
    return recorded_once(smp, arch)


@test
def the_recording_has_two_ends():
    with travel(work, recorded()) as session:
        gdb = session.gdb
        check(session.when() == (session.first, [0, 0]), session.when())
        stop = gdb.go("reverse-stepi")
        check(met_an_end(stop) and session.moment() == session.first, stop)
        stop = gdb.go("continue")
        check(met_an_end(stop) and session.moment() == session.last, stop)
        end_digests = session.digests()
        check(end_digests["ram"] == info(recorded())["end_digest"]["ram"], end_digests)
        for command in ("stepi", "continue"):
            check(met_an_end(gdb.go(command)), gdb)
        check(session.digests() == end_digests, "the end has changed")
        stop = gdb.go("reverse-continue")
        check(met_an_end(stop) and session.moment() == session.first, stop)


@test
def a_session_with_many_stops_ends_as_it_was_recorded():
    """Also what the guest said is shown once, and in full."""
    directory = recorded()
    with travel(work, directory) as session:
        wander(session, seed=7, n=STOPS // 2)
        session.goto("start")
        pc = None
        for i in range(STOPS // 2):
            session.goto(session.first + (session.last - session.first) * i // (STOPS // 2))
            session.gdb.command("x/8i $pc")
            session.gdb.command("info registers")
            pc = session.gdb.value("$pc")
        session.gdb.command(f"break *{pc}")
        session.gdb.go("continue")
        session.gdb.command("delete")
        stop = session.gdb.go("continue")
        check(met_an_end(stop) and session.moment() == session.last, stop)
        check(session.digests()["ram"] == info(directory)["end_digest"]["ram"], session.digests())
        check(not session.qmp.named("RECORDER_DIVERGED"), session.qmp.events)
    shown = work.console.read()
    for word in (b"forkstorm: ", b"racey: ", b"pipes: "):
        check(shown.count(word) == 1, f"{word} is there {shown.count(word)} times")


# --- with the kernel's symbols ------------------------------------------------------------------

@test_each(ARCHES)
def watchpoints_are_met_both_ways(arch):
    with travel(work, recorded(arch=arch), vmlinux=symbols(arch)) as session:
        gdb = session.gdb
        session.goto((session.first + session.last) * 2 // 3)
        began, value = session.moment(), gdb.value("jiffies_64")
        gdb.command("watch jiffies_64")
        there, values = [], [value]
        for _ in range(3):
            stop = gdb.go("continue")
            check(stop.reason == "watchpoint-trigger", stop)
            values.append(gdb.value("jiffies_64"))
            check(values[-1] > values[-2], f"{values}\n{gdb}")      # a busy host makes it jump
            check(re.search("do_update_jiffies|do_timer", stop.function), stop)
            there.append((stop.thread, session.moment()))
        for value in reversed(values[:-1]):
            thread, after = there.pop()
            stop = gdb.go("reverse-continue")
            check(stop.reason == "watchpoint-trigger", stop)
            check(gdb.value("jiffies_64") == value, f"not {value}\n{gdb}")
            check(stop.thread == thread and session.moment() == after - 1,
                  f"{stop}, at {session.moment()} instead of {after} - 1")
        check(began <= session.moment(), session.when())
        gdb.command("delete")
        for kind, reason in (("rwatch", "read-watchpoint-trigger"),
                             ("awatch", "access-watchpoint-trigger")):
            gdb.command(f"{kind} jiffies_64")
            ahead = [(gdb.go("continue"), session.moment()) for _ in range(3)]
            check(all(stop.reason == reason for stop, _ in ahead), ahead)
            check(ahead[0][1] < ahead[1][1] < ahead[2][1], ahead)
            back = gdb.go("reverse-continue"), session.moment()
            check(back[0].reason == reason and back[1] <= ahead[2][1], back)
            gdb.command("delete")


@test_each(ARCHES)
def breakpoints_are_met_both_ways(arch):
    with travel(work, recorded(arch=arch), vmlinux=symbols(arch)) as session:
        gdb = session.gdb
        session.goto((session.first + session.last) // 2)
        gdb.command("hbreak fork.c:kernel_clone")
        ahead = []
        for _ in range(4):
            stop = gdb.go("continue")
            check(stop.reason == "breakpoint-hit" and stop.function == "kernel_clone", stop)
            ahead.append((session.moment(), stop.thread, gdb.value("$sp")))
        for expected in reversed(ahead[:-1]):
            stop = gdb.go("reverse-continue")
            check(stop.reason == "breakpoint-hit", stop)
            seen = session.moment(), stop.thread, gdb.value("$sp")
            check(seen == expected, f"{seen} instead of {expected}")
        # A condition: of those ahead, the first with this stack; of those behind, the last.
        gdb.command("delete")
        wanted = ahead[2][2]
        gdb.command(f"break fork.c:kernel_clone if $sp == {wanted}")
        gdb.go("continue")
        expected = next(hit for hit in ahead[1:] if hit[2] == wanted)
        check(session.moment() == expected[0], f"{session.when()}, not {expected}")
        gdb.command("delete")
        session.goto(ahead[3][0])
        gdb.command(f"break fork.c:kernel_clone if $sp == {wanted}")
        gdb.go("reverse-continue")
        check(session.moment() == ahead[2][0], f"{session.when()}, not {ahead[2]}")


@test_each([1, 2])
def a_step_back_from_a_checkpoint_is_one_step(checkpoint):
    """What breakpoints there are makes no difference, though then all that lies between is seen."""
    seen = []
    for command in ("delete", "hbreak *0x10"):
        with travel(work, recorded(), "--at", f"checkpoint {checkpoint}") as session:
            before = session.when()[1][0]
            session.gdb.command(command)
            session.gdb.go("reverse-stepi")
            seen.append(session.when())
    check(seen[0] == seen[1], seen)
    check(0 < before - seen[0][1][0] <= 3, f"{before}, {seen}")


@test
def a_thread_that_is_chosen_is_stepped():
    """Backwards, gdb does not say which."""
    with travel(work, recorded(4), vmlinux=symbols()) as session:
        gdb = session.gdb
        session.goto((session.first + session.last) * 3 // 4)
        for thread in (3, 1, 2, 4):
            gdb.command(f"thread {thread}")
            gdb.command("info threads")
            gdb.command("thread apply all backtrace 1")
            for command in ("reverse-stepi", "stepi", "reverse-stepi"):
                stop = gdb.go(command)
                check(stop.thread == thread, f"{command} of {thread}: {stop}")


@test
def functions_are_stepped_both_ways():
    with travel(work, recorded(), vmlinux=symbols()) as session:
        gdb = session.gdb
        session.goto((session.first + session.last) // 2)
        gdb.command("break fork.c:kernel_clone")
        stop = gdb.go("continue")
        gdb.command("delete")
        check(stop.function == "kernel_clone", stop)
        thread = stop.thread
        for command in ("next", "next", "step", "next", "reverse-next", "reverse-step"):
            check(gdb.go(command).thread == thread, gdb)
        # A function without the nops of ftrace, which gdb takes for code of another one.
        gdb.command("break *cpu_do_idle")
        stop = gdb.go("reverse-continue")
        check(stop.function == "cpu_do_idle", stop)
        gdb.command("delete")
        frame = gdb.value("$sp")
        gdb.go("stepi 2")
        stop = gdb.go("reverse-finish")
        check(stop.function == "arch_cpu_idle" and gdb.value("$sp") == frame, stop)
        check("bl" in gdb.command("x/i $pc").split(), gdb.command("x/i $pc"))
        check(gdb.go("stepi").function == "cpu_do_idle", gdb)
        stop = gdb.go("finish")
        check(stop.function == "arch_cpu_idle", stop)


@test
def all_threads_are_shown():
    with travel(work, recorded(4), vmlinux=symbols()) as session:
        gdb = session.gdb
        for part in (1, 2, 3):
            session.goto((session.first + session.last) * part // 4)
            check(sorted(gdb.threads()) == [1, 2, 3, 4], gdb.threads())
            stacks = gdb.command("thread apply all backtrace 3")
            check(len(re.findall(r"^#0 ", stacks, re.M)) == 4, stacks)
            # What gdb shows is what QEMU has.
            registers = session.qmp("human-monitor-command",
                                    **{"command-line": "info registers -a"})["return"]
            for thread, pc in enumerate(re.findall(r"PC=([0-9a-f]+)", registers), 1):
                gdb.command(f"thread {thread}")
                check(gdb.value("$pc") == int(pc, 16), f"{registers}")


# --- questions ----------------------------------------------------------------------------------

@test_each(ARCHES)
def the_last_write_is_the_one_that_a_watchpoint_meets(arch):
    with travel(work, recorded(arch=arch), vmlinux=symbols(arch)) as session:
        gdb = session.gdb
        for part in (0.95, 0.7, 0.6):
            session.goto(int(session.first + (session.last - session.first) * part))
            now, before = session.moment(), session.digests()
            address, value = gdb.value("&jiffies_64"), gdb.value("jiffies_64")
            told = ACCESS.fullmatch(session.monitor(f"last-write {address:#x} 8").strip())
            check(told and told[4] == "store" and int(told[9], 16) == value, told)
            physical = session.monitor(f"last-write -p {told[5]} 8").strip()
            check(physical == told[0], f"{physical}, {told[0]}")
            check((session.moment(), session.digests()) == (now, before), "it is elsewhere now")
            gdb.command("watch jiffies_64")
            stop = gdb.go("reverse-continue")
            check(session.moment() == int(told[1]), f"{session.when()}, {told[0]}")
            check(f"vCPU {stop.thread - 1}" == told[2] and stop.pc == int(told[7], 16),
                  f"{stop}, {told[0]}")
            gdb.command("delete")


@test_each(ARCHES)
def the_accesses_around_now_are_told(arch):
    with travel(work, recorded(arch=arch), vmlinux=symbols(arch)) as session:
        gdb = session.gdb
        session.goto((session.first + session.last) * 2 // 3)
        now, before = session.moment(), session.digests()
        address = gdb.value("&jiffies_64")
        told = session.monitor(f"who {address:#x}")
        past, future = ([ACCESS.fullmatch(line.strip()) for line in part.strip().split("\n")]
                        for part in re.split(r"-- now, at moment \d+\s*\n", told))
        check(all(past) and all(future) and len(past) == len(future) == 8, told)
        moments = [int(access[1]) for access in past + future]
        check(moments == sorted(moments) and moments[7] < now <= moments[8], told)
        check((session.moment(), session.digests()) == (now, before), "it is elsewhere now")
        # Each is where it is said to be, and finds what the last write has left.
        for access in past[-3:] + future[:3]:
            session.goto(int(access[1]))
            gdb.command(f"thread {int(access[2].split()[1]) + 1}")
            check(gdb.value("$pc") == int(access[7], 16), f"{access[0]}: {gdb.value('$pc'):#x}")
            if access[5] == past[0][5]:
                check(gdb.value("jiffies_64") == int(access[8], 16), access[0])


@test
def questions_without_an_answer_are_refused():
    with travel(work, recorded()) as session:
        session.goto(1000)
        for question, answer in (("last-write -p 0x9000000", "is not in the guest's memory"),
                                 ("last-write -p 0x40000ffc 8", "more than one page"),
                                 ("last-write -p 0x40000000 0", "are none"),
                                 ("who -p 0x10", "is not in the guest's memory"),
                                 ("last-write -p 0x47ff0000", "nobody has written there")):
            said = one_line(session.monitor(question).strip() + "\n")
            check(answer in said, f"{question}: {said}")
        refused = session.qmp("recorder-last-write", address=0x40000000, vcpu=7)["error"]["desc"]
        check(refused == "there is no vCPU 7", refused)
        session.goto("end")
        said = session.gdb.refusal("print *(int *)0x123456789abcdef0")
        check("Cannot access memory" in said, said)
        said = session.gdb.command("monitor last-write 0x123456789abcdef0")
        check("is not mapped now" in said, said)
        check(session.moment() == session.last, session.when())


@test
def the_tool_asks_without_a_debugger():
    done = run(REPRISE, "debug", recorded(), "--at", "150000000", "--ask", "when", "--ask",
               "last-write -p 0x40000000 4", "--ask", "goto end")
    lines = done.stdout.split("\n")
    check(lines[0].startswith("moment 150000000 of 0 to "), done.stdout)
    check(ACCESS.fullmatch(lines[1]) or lines[1].startswith("nobody"), done.stdout)
    check(lines[2].split(" of ")[0].split()[1] == lines[0].split(" to ")[1].split(",")[0],
          done.stdout)


# --- who gets in the way ------------------------------------------------------------------------

@test_each(["continue", "reverse-continue"])
def it_can_be_interrupted_at_once(command):
    with travel(work, recorded()) as session:
        gdb = session.gdb
        session.goto("end" if "reverse" in command else "start")
        before = session.moment()
        gdb.command("hbreak *0x10")             # so that it must look at all of it
        gdb.start(command)
        time.sleep(0.3)
        began = time.monotonic()
        stop = gdb.interrupt()
        check(time.monotonic() - began < AT_ONCE_S, f"{time.monotonic() - began} s")
        check(stop.signal == "SIGINT", stop)
        moment = session.moment()
        check(session.first <= moment <= session.last and
              (moment <= before if "reverse" in command else moment >= before), session.when())
        gdb.command("delete")
        session.gdb.go("stepi")
        seen = {session.moment(): (session.digests(), command)}
    judge(work, recorded(), seen)


@test
def who_is_interrupted_at_once_has_not_moved_and_misses_nothing():
    with travel(work, recorded()) as session:
        gdb = session.gdb
        middle = (session.first + session.last) // 2
        for i in range(6):
            session.goto(middle + i * 777777)
            pc = gdb.value("$pc")
            gdb.go("stepi 30")
            began = session.moment()
            gdb.command(f"break *{pc}")
            gdb.go("reverse-continue")
            behind = session.moment()
            session.goto(began)
            for command in ("continue", "reverse-continue"):
                gdb.start(command)
                if gdb.interrupt().signal != "SIGINT":
                    break                       # it was quicker
                moment = session.moment()
                check(moment >= began if command == "continue" else behind <= moment <= began,
                      f"{command} from {began} was interrupted at {moment}, {behind} is a hit")
                session.goto(began)
            else:
                gdb.start("reverse-continue")
                if gdb.interrupt().signal == "SIGINT":
                    gdb.go("reverse-continue")
                check(session.moment() == behind, f"{session.when()} instead of {behind}")
            gdb.command("delete")


@test
def who_is_interrupted_on_the_way_to_an_earlier_checkpoint_misses_nothing():
    with travel(work, recorded()) as session:
        session.goto("checkpoint 2")
        began = session.moment()
        session.goto(began - 5000)
        pc = session.gdb.value("$pc")
        session.goto(began)
        session.gdb.command(f"break *{pc}")
        session.gdb.go("reverse-continue")
        behind = session.moment()
    with travel(work, recorded(), "--at", str(began)) as session:
        session.gdb.command(f"break *{pc}")
        session.gdb.start("reverse-continue")
        time.sleep(0.1)
        stop = session.gdb.interrupt()
        moment = session.moment()
        if stop.signal == "SIGINT":             # else it was quicker
            session.gdb.go("reverse-continue")
        check(session.moment() == behind,
              f"interrupted at {moment}, then {session.moment()} instead of {behind}")


@test_each(ARCHES)
def nothing_can_be_written(arch):
    with travel(work, recorded(arch=arch)) as session:
        session.goto((session.first + session.last) // 2)
        before = session.digests()
        # gdb asks for no write of what is there already.
        for command in (f"set ${REGISTER[arch]} += 1", "set $pc = 0"):
            said = session.gdb.refusal(command)
            check("this is a replay: nothing can be written" in said, said)
        # Of memory, gdb has its own words.
        said = session.gdb.refusal("set *(int *)$sp = 1")
        check("Cannot access memory" in said, said)
        check(session.digests() == before, "something was written")


@test
def bad_requests_are_refused_and_nothing_changes():
    with travel(work, recorded()) as session:
        session.goto(1000)
        beyond = str(session.last + 1)
        for at, refusal in (("x", "'x' is no moment"), ("-1", "'-1' is no moment"),
                            ("1.5", "'1.5' is no moment"), ("checkpoint", "is no moment"),
                            ("checkpoint x", "is not the number of a checkpoint"),
                            ("checkpoint 999", "has no checkpoint 999"),
                            (beyond, f"moment {beyond} is outside of the recording")):
            said = one_line(session.monitor(f"goto {at}").strip() + "\n")
            check(refusal in said, said)
            check(session.moment() == 1000, session.when())
        said = session.gdb.refusal("x/1x 0xffff111122223333")
        check("Cannot access memory" in said, said)
        # Its MMU is off, so this is the interrupt controller, which no replay has.
        said = session.gdb.refusal("x/1wx 0x08010010")
        check("Cannot access memory" in said, said)
        session.gdb.go("stepi")
        check(session.moment() == 1001, session.when())


@test
def a_debugger_that_dies_or_leaves_is_followed_by_another():
    with travel(work, recorded()) as session:
        session.goto(5000)
        session.gdb.command("hbreak *0x10")
        session.gdb.start("continue")           # and is killed on the way
        session.reconnect()
        check(session.first <= session.moment() <= session.last, session.when())
        session.goto(7000)
        session.gdb.command("detach")
        session.reconnect()
        check(session.moment() == 7000, session.when())
        check(session.gdb.go("stepi").reason == "end-stepping-range", session.gdb)


PACKETS = {"half": "$m40000000,", "repeat": "$m4*", "escape": "$m}", "no checksum": "$m40000000,4#",
           "half a checksum": "$m40000000,4#3", "ctrl-c": "\x03", "nonsense": "nonsense"}


@test_each(PACKETS)
def a_debugger_that_dies_in_mid_packet_is_followed_by_another(packet):
    with travel(work, recorded()) as session:
        session.goto(9000)
        session.gdb.close()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(session.address)
            client.sendall(PACKETS[packet].encode())
            time.sleep(0.1)
        session.reconnect()
        check(session.moment() == 9000, session.when())
        session.gdb.go("stepi")
        check(session.moment() == 9001, session.when())


@test
def a_second_debugger_is_told_so_and_does_not_disturb_the_first():
    with travel(work, recorded()) as session:
        session.goto(9000)
        with Gdb() as second:
            why = second.refusal(f"target remote {session.address}")
            check("is being debugged already" in f"{why}\n{second}", second)
        for packets in (b"", b"+", b"$vCont;c:p1.-1#0f$k#6b", b"$" + b"x" * 100000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(session.address)
                with contextlib.suppress(BrokenPipeError):      # it has been answered
                    client.sendall(packets)
                session.gdb.go("stepi")
                check(session.moment() == 9001, session.when())
            session.gdb.go("reverse-stepi")
            check(session.moment() == 9000, session.when())
        session.reconnect()
        check(session.moment() == 9000, session.when())


@test
def our_gdb_has_commands_of_its_own():
    """They take its expressions, and it notices that it is elsewhere."""
    commands = ["when", "goto 9000", "when", "p $pc", "goto end", "goto checkpoint 0", "p $pc",
                "goto nowhere", "last-write $pc", "last-write $pc 4", "who $pc"]
    done = run(REPRISE, "debug", recorded(), "--gdb", "--", "-q", "-nx", "-batch", "-iex",
               "set architecture aarch64", *(word for command in commands
                                             for word in ("-ex", command)), timeout=TRAVEL_S)
    said = done.stdout + done.stderr
    check(re.findall(r"^(?:\.+\s+)?moment (\d+) of", said, re.M)[:3] == ["0", "9000", "9000"], said)
    at_9000, at_start = re.findall(r"^\$\d+ = \(void \(\*\)\(\)\) (0x\w+)", said, re.M)
    check(at_start == "0x40000000" != at_9000, said)
    check(re.search(rf"#0 +{at_9000.replace('0x', '0x0*')} in ", said), said)
    check("'nowhere' is no moment" in said, said)
    check(said.count("nobody has written there") == 2 and "-- now, at moment 0" in said, said)


@test
def a_step_over_a_breakpoint_that_meets_the_end_leaves_gdb_well():
    with travel(work, recorded()) as session:
        gdb = session.gdb
        for thread in (1, 2):
            session.goto("end")
            gdb.command(f"thread {thread}")
            gdb.command("hbreak *$pc")
            check(met_an_end(gdb.go("continue", TRAVEL_S)), "at the end")
            gdb.command("delete")
            session.goto(9000)
            gdb.go("stepi")
            check(session.moment() == 9001, session.when())


@test
def backwards_it_is_the_thread_that_gdb_wants_to_step():
    """Off a breakpoint of a thread that is not looked at; gdb dies if the other one stops."""
    with travel(work, recorded(), "--at", "checkpoint 1", vmlinux=symbols()) as session:
        gdb = session.gdb
        gdb.command("rwatch jiffies_64")
        for command in ("continue", "continue", "reverse-continue"):
            stop = gdb.go(command, TRAVEL_S)
        gdb.command("delete")
        gdb.command(f"thread {3 - stop.thread}")
        gdb.command(f"hbreak *{stop.pc:#x}")
        before = session.moment()
        back = gdb.go("reverse-continue", TRAVEL_S)
        check(back.pc == stop.pc or met_an_end(back), back)
        check(session.moment() < before, session.when())
        gdb.command("delete")
        gdb.command(f"thread {stop.thread}")
        gdb.go("reverse-stepi")
        gdb.command(f"thread {3 - stop.thread}")
        check(gdb.go("reverse-stepi").thread == 3 - stop.thread, "not the one that is looked at")


@test
def gdb_that_takes_a_load_for_exclusive_does_not_lose_hits():
    """A thread that stands at an ldar with a breakpoint goes on alone, says gdb, behind a store."""
    vmlinux = symbols()
    with travel(work, recorded(4), "--at", "checkpoint 1", vmlinux=vmlinux) as session:
        gdb = session.gdb
        code = gdb.command("disassemble queued_spin_lock_slowpath")
        load = re.search(r"(0xf\w+) <\+\d+>:\tldar\t", code)
        check(load, code)
        gdb.command(f"hbreak *{load.group(1)}")
        gdb.command("hbreak *scheduler_tick")
        stop = gdb.go("continue", TRAVEL_S)
        while stop.pc != int(load.group(1), 16):
            check(not met_an_end(stop), "nobody ever waited for a lock")
            stop = gdb.go("continue", TRAVEL_S)
        first = session.moment()
        stop = gdb.go("continue", TRAVEL_S)
        check(stop.reason == "breakpoint-hit", stop)
        check(session.moment() - first < 50_000_000, f"from {first} to {session.when()}: {stop}")


main(work)
