# SPDX-License-Identifier: GPL-2.0-or-later
"""Karma and Rerun as recorders of order, alone and beside FDR: all that FDR's recordings can do.

The soak repeats the races (tests/soak/smp.py).
"""

import os
import random
import re
import signal
import time

from tests.guest import bare_guest
from tests.lib.damage import check_noticed, check_refused, random_damage, spoil
from tests.lib.guest_recording import GuestWorkspace, check_race, end, kill_recorder, stock_command
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, info

work = GuestWorkspace()
MUCH_MIB = 4096
ALL = "fdr,karma:4096,rerun:4096"
NAMES = ["fdr", "karma", "rerun"]
SEED = 7


def name_of(order):
    return order.split(":")[0]


def record(name, order, *args):
    """Directory and console."""
    directory = work.place(name)
    recorded, _ = work.record(directory, "--order", order, *args)
    run(REPRISE, "verify", directory)
    return directory, recorded


def replays(directory, recorded, *args):
    shown, said = work.replay(directory, *args)
    check("replayed identically" in said, said)
    check(shown and recorded.endswith(shown), f"recorded:\n{recorded}\nreplayed:\n{shown}")


@work.shared
def raced(order):
    """A race of four vCPUs: directory and console."""
    return record(f"racey-{order.replace(',', '-').replace(':', '')}", order, "--smp", "4",
                  "--run", "racey -t 4 -n 10000")


@test_each(["karma:1024", "rerun"], long=["karma", "karma:0", "rerun:256"])
def a_race_replays_identically(order):
    directory, recorded = raced(order)
    check_race(directory)
    replays(directory, recorded)
    replays(directory, recorded, "--threads", "single")


@test_each(NAMES)
def one_execution_replays_by_each_of_its_orders(order):
    replays(*raced(ALL), "--order", order)


@test
def orders_of_one_execution_have_the_same_steps():
    """Digests of registers, at the same positions."""
    directory, _ = raced(ALL)
    traces = []
    for order in NAMES:
        traces.append(work.place(f"trace-{order}"))
        work.replay(directory, "--order", order, "--trace", traces[-1], "--trace-interval", "50000")
    for other in traces[1:]:
        run(REPRISE, "compare", traces[0], other)


@test_each(["racey locks forkstorm", "pipes signals syscalls handoff"])
def programs_replay_identically(programs):
    small = {"racey": 20000, "locks": 20000, "forkstorm": 5, "pipes": 100, "signals": 3,
             "syscalls": 10, "handoff": 1000}
    command = " && ".join(f"{p} -t 4 -n {small[p]}" for p in programs.split())
    replays(*record("programs", "karma", "--smp", "4", "--run", command))


@test_each(["cortex-a76 1 karma", "cortex-a76 2 karma", "cortex-a76 2 karma:0",
            "max 1 rerun", "cortex-a76 2 rerun", "max 2 karma", f"cortex-a76 2 {ALL}"])
def a_bare_guest_replays_identically(how):
    cpu, smp, order = how.split()
    directory, recorded = record("bare", order, *bare_guest.command(
        BIN, cpu, int(smp), bare_guest.build(work)))
    bare_guest.check_console(recorded.decode())
    for name in map(name_of, order.split(",")):
        replays(directory, recorded, "--order", name)


@test_each([ALL], long=["karma", "rerun:1000"])
def replay_begins_at_any_checkpoint(order):
    disk = work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(16 << 20)
    qemu = stock_command("racey -t 2 -n 30000; dd if=/dev/vda of=/run/x bs=64k count=64 "
                         "2>/dev/null; forkstorm -t 2 -n 8; sha256sum /dev/vda", smp=2)
    directory, recorded = record("checkpoints", order, "--checkpoint-interval", "0.2", "--", *qemu,
                                 "-drive", f"file={disk},if=none,id=d,format=raw",
                                 "-device", "virtio-blk-pci,drive=d")
    last = len(info(directory)["checkpoints"]) - 1
    check(last >= 3, "too few checkpoints")
    for name in map(name_of, order.split(",")):
        for number in (0, last // 2, last):
            replays(directory, recorded, "--order", name, "--from", str(number))
    os.remove(disk)


@test_each([ALL], long=["karma", "karma:0", "rerun"])
def a_killed_recorder_loses_little(order):
    """What it showed half a second before; a repaired recording replays by each order."""
    directory = work.place("killed")
    process = work.start("record", "-o", directory, "--order", order, "--smp", "2", "--run",
                         "while :; do date; racey -t 2 -n 500; done")
    work.console.wait_for(b"signature=", process)
    time.sleep(1)
    before = work.console.read()
    time.sleep(1)
    kill_recorder(process)
    recorded = work.console.read()
    for name in map(name_of, order.split(",")):
        shown, said = work.replay(directory, "--order", name)
        check("replayed up to the cut" in said and recorded.startswith(shown), said)
        check(shown.startswith(before), f"lost more than a second:\n{shown[-200:]}")
    check(re.search(r"replays up to [0-9:,]+;", run(REPRISE, "repair", directory).stdout), "repair")
    for name in map(name_of, order.split(",")):
        said = work.replay(directory, "--order", name)[1]
        check("replayed up to the cut" in said and "repaired" in said, said)


@test
def a_flight_recorder_keeps_the_last_seconds():
    directory = work.place("flight")
    process = work.start("record", "-o", directory, "--order", "karma", "--smp", "2",
                         "--keep-seconds", "2", "--checkpoint-interval", "0.5", "--run",
                         "while :; do forkstorm -t 2 -n 5; racey -t 2 -n 5000; date; done")
    work.console.wait_for(b"signature=", process)
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    end(process)
    recorded = work.console.read()
    run(REPRISE, "verify", directory)
    said = info(directory)
    check(all(int(at.split(":")[1]) > 0 for at in said["checkpoint_points"][0].split(",")), said)
    for number in (0, len(said["checkpoints"]) - 1):
        shown, line = work.replay(directory, "--from", str(number))
        check("replayed identically" in line, line)
        check(recorded.endswith(shown), f"{recorded}\nreplayed from {number}: {shown}")


@test
def episodes_that_end_last_are_counted():
    """The digest of so much memory takes so long that DMA's episodes are flushed meanwhile."""
    directory = work.place("counted")
    work.record(directory, "--order", "rerun",
                *bare_guest.command(BIN, "cortex-a72", 2, bare_guest.build(work), MUCH_MIB))
    run(REPRISE, "verify", directory)


@test_each(["karma:1024", "rerun"])
def no_damage_goes_unnoticed(order):
    directory, _ = raced(order)
    source = random.Random(SEED)
    for i in range(20):
        damage = random_damage(source, directory)
        undo = spoil(directory, damage)
        check_noticed(directory, damage)
        if i % 10 == 0:
            check_refused(directory, damage)
        undo()


# --- bad input ----------------------------------------------------------------------------

@test_each([("", "fdr, karma"), ("foo", "unknown order 'foo'"), ("karma:", "karma"),
            ("karma:-1", "karma"), ("fdr:5", "fdr"), ("karma,karma", "karma"),
            ("rerun:99999999999999999999", "rerun")])
def an_order_that_makes_no_sense_is_refused(case):
    order, word = case
    directory = work.place("refused")
    done = run(REPRISE, "record", "-o", directory, "--order", order, "--run", "true", status=2)
    check(word in one_line(done.stderr) and not os.path.exists(directory), done.stderr)


@test
def an_order_that_a_recording_does_not_have_is_refused():
    directory, _ = raced("karma")
    for order in ("fdr", "rerun"):
        said = work.replay(directory, "--order", order, status=2)[1]
        check(order in said and "karma" in said, said)
    said = work.replay(directory, "--order", "foo", status=2)[1]
    check("foo" in said, said)


main(work)
