# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of four vCPUs and a disk, replayed by each order of its steps, in each way there is."""

import os
import time

from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, long_test, main, test, test_each
from tests.lib.time_travel import judge, travel, wander
from tests.lib.tool import REPRISE, info

work = GuestWorkspace()
DISK_MIB = 4
DISK_WORK = ("cp /bin/busybox /dev/vda; sync; echo 3 > /proc/sys/vm/drop_caches; "
             "dd if=/dev/vda of=/dev/null bs=64k")
# Short episodes begin everywhere, also where replay cannot stop: before an exception is taken.
ORDERS = "fdr,karma:300,rerun:1000"
EXCURSIONS = 4

WAYS = {
    "the first": [],
    "fdr": ["--order", "fdr"],
    "karma": ["--order", "karma"],
    "karma from a checkpoint": ["--order", "karma", "--from", "2"],
    "karma, one vCPU at a time": ["--order", "karma", "--threads", "single"],
    "karma with chaos": ["--order", "karma", "--chaos", "11"],
    "karma by positions": ["--order", "karma", "--positions"],
    "karma by positions, from a checkpoint": ["--order", "karma", "--positions", "--from", "1"],
    "rerun": ["--order", "rerun"],
    "rerun from a checkpoint, one vCPU at a time": ["--order", "rerun", "--from", "2", "--threads",
                                                    "single"],
}


def convert(directory, name, orders):
    to = work.place(name)
    run(REPRISE, "convert", directory, to, "--order", orders)
    return to


@work.shared
def recorded():
    """The recording, and what the guest showed."""
    directory, disk = work.place("plain"), work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(DISK_MIB << 20)
    shown, _ = work.record(directory, "--checkpoint-interval", "0.3", "--", *stock_command(
        f"({DISK_WORK}) & forkstorm -t 4 -n 4; racey -t 4 -n 10000; pipes -t 2 -n 50; wait", smp=4,
        boot=("--mem", "128")), "-drive", f"file={disk},if=none,id=d,format=raw", "-device",
        "virtio-blk-pci,drive=d")
    os.remove(disk)
    check(len(info(directory)["checkpoints"]) >= 3, "too few checkpoints")
    return directory, shown


@work.shared
def with_orders():
    return convert(recorded()[0], "orders", ORDERS)


@work.shared
def with_karma():
    return convert(recorded()[0], "karma", "karma:300")


@test_each(WAYS)
def the_guest_does_again_what_it_did(way):
    shown, said = work.replay(with_orders(), *WAYS[way])
    check("replayed identically" in said, said)
    check("--from" in WAYS[way] or shown == recorded()[1], shown)


def digests_at(moment, *args):
    socket = work.path("qmp")
    process = work.start("replay", with_orders(), "--order", "karma", "--until", str(moment),
                         "--qmp", socket, "--pause-at-end", *args)
    qmp = Qmp(socket, process)
    ended = qmp.replayed()
    digests = qmp("query-recorder-digests")["return"]
    qmp("quit")
    end(process)
    qmp.close()
    check(ended["identical"], ended)
    return ended["cut"], digests


@test
def a_moment_is_the_same_by_wake_ups_and_by_positions():
    """In the middle of episodes, wherever replay begins."""
    steps = sum(int(at.split(":")[1]) for at in info(with_orders())["end_point"].split(","))
    for part in range(1, 4):
        moment = steps * part // 4
        seen = digests_at(moment)
        check(digests_at(moment, "--positions") == seen, moment)
        check(digests_at(moment, "--from", "0", "--threads", "single") == seen, moment)


@test
def a_debugger_goes_through_karma_s_order():
    with travel(work, with_karma()) as session:
        seen = wander(session, seed=5, n=EXCURSIONS)
    judge(work, with_karma(), seen)


@test
def a_debugger_follows_the_order_that_it_is_told():
    for order in ("karma", "rerun"):
        said = run(REPRISE, "debug", with_orders(), "--order", order, "--at", "end", "--ask",
                   "when").stdout
        check("moment" in said, said)


@long_test
def what_was_cut_off_is_replayed_by_each_order():
    """The recorder is killed while three vCPUs sleep, and others wait for what they did before."""
    directory = work.place("killed")
    process = work.start("record", "-o", directory, "--smp", "4", "--run",
                         "racey -t 4 -n 5000; while :; do date; sleep 0.1; done")
    work.console.wait_for(b" UTC ", process)
    time.sleep(1)
    kill_recorder(process)
    converted = convert(directory, "cut", ORDERS)
    seen = [work.replay(converted, *WAYS[way]) for way in ("fdr", "karma", "karma by positions",
                                                           "rerun")]
    for shown, said in seen:
        check(shown == seen[0][0] and b"racey" in shown, shown)
        check("up to the cut" in said, said)


main(work)
