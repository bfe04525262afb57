# SPDX-License-Identifier: GPL-2.0-or-later
"""Random excursions of a real gdb through recordings, judged by a replay without a debugger."""

import os
import re

from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import run
from tests.lib.tap import check, long_test, main, test, test_each
from tests.lib.time_travel import (ACCESS, MEM_MIB, judge, met_an_end, record_race, travel, wander)
from tests.lib.tool import REPRISE, info

work = GuestWorkspace()
EXCURSIONS = 10
FEW = 5
RAM_BASE = 0x40000000


@work.shared
def recorded(smp=2, arch="aarch64"):
    return record_race(work, smp, arch)


@test_each(["2 aarch64", "4 x86_64"], long=["1 aarch64", "4 aarch64", "1 x86_64"])
def excursions_come_to_where_a_plain_replay_is(how):
    smp, arch = how.split()
    directory = recorded(int(smp), arch)
    with travel(work, directory) as session:
        seen = wander(session, seed=int(smp), n=EXCURSIONS)
    judge(work, directory, seen)


@long_test
def snapshots_may_have_little_memory():
    with travel(work, recorded(), "--snapshots", "1M") as session:
        seen = wander(session, seed=9, n=FEW)
    judge(work, recorded(), seen)


@test
def what_a_disk_wrote_is_part_of_the_past():
    """DMA goes back and forth with the rest, and is told of as the last who wrote."""
    directory, disk = work.place("disk"), work.path("disk.img")
    with open(disk, "wb") as file:
        file.write(os.urandom(8 << 20))
    work.record(directory, "--checkpoint-interval", "0.6", "--", *stock_command(
        "sha256sum /dev/vda; echo 3 >/proc/sys/vm/drop_caches; sha256sum /dev/vda", smp=2,
        boot=("--mem", str(MEM_MIB))), "-drive", f"file={disk},if=none,id=d,format=raw",
        "-device", "virtio-blk-pci,drive=d")
    os.remove(disk)
    dump = run(REPRISE, "dump", "--dma", directory).stdout
    pages = [int(at, 16) for at, n in re.findall(r"dma-write address=(0x\w+) bytes=(\d+)", dump)
             if int(n) >= 4096]
    check(len(pages) > 1000, f"{len(pages)} pages were written by the disk")
    with travel(work, directory) as session:
        seen = wander(session, seed=5, n=FEW)
        session.goto("end")
        told = [ACCESS.fullmatch(session.monitor(f"last-write -p {RAM_BASE + page:#x} 8").strip())
                for page in pages[len(pages) // 2::len(pages) // 2 // FEW]]
        dma = [access for access in told if access and access[2] == "DMA"]
        check(dma, f"no page is as the disk left it: {[access and access[0] for access in told]}")
        # Before that step it is not there, after it, it is.
        for after in (0, 1):
            session.goto(int(dma[0][1]) + after)
            value = session.qmp("human-monitor-command", **{
                "command-line": f"xp /1gx {dma[0][5]}"})["return"].split()[-1]
            check(int(value, 16) == int(dma[0][8 + after], 16), f"{value}: {dma[0][0]}")
    judge(work, directory, seen)


@test
def a_recording_that_was_cut_off_has_a_past_too():
    directory = work.place("killed")
    guest = stock_command("racey -t 2 -n 20000; forkstorm -t 2 -n 1000", smp=2,
                          boot=("--mem", str(MEM_MIB)))
    process = work.start("record", "-o", directory, "--checkpoint-interval", "0.6", "--", *guest)
    work.console.wait_for(b"racey: ", process)
    kill_recorder(process)
    check(not info(directory)["complete"], info(directory))
    with travel(work, directory, "--at", "end") as session:
        check(session.moment() == session.last, session.when())
        seen = wander(session, seed=3, n=FEW)
    judge(work, directory, seen)


@test
def a_flight_recording_begins_where_it_was_dropped():
    directory = work.place("flight")
    process = work.start("record", "-o", directory, "--keep-seconds", "1", "--qmp",
                         work.path("flight.qmp"), "--",
                         *stock_command("forkstorm -t 2 -n 60; racey -t 2 -n 20000", smp=2,
                                        boot=("--mem", str(MEM_MIB))))
    end(process)
    with travel(work, directory, "--at", "end") as session:
        check(session.first > 0, "nothing was dropped")
        session.goto("start")
        check(met_an_end(session.gdb.go("reverse-stepi")), session.gdb)
        seen = wander(session, seed=4, n=FEW)
    judge(work, directory, seen)


main(work)
