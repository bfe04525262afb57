# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoints that are made while recording, and replays that begin at them."""

import json
import os
import re
import shutil
import time

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, info

work = GuestWorkspace()
MOST_PAUSE_S = 5            # on a busy host; the bar is 0.1 on an idle one, see make bench


def replays_from(directory, number, recorded, *args):
    """The last checkpoint may be behind all that the guest shows."""
    shown, said = work.replay(directory, "--from", str(number), *args)
    check("replayed identically" in said, f"from {number}: {said}")
    is_last = number == len(info(directory)["checkpoints"]) - 1
    check((shown or is_last) and recorded.endswith(shown), f"from {number}: another end:\n{shown}")
    return int(said.split(" steps ")[0].split()[-1])


def lies_on_the_order(directory, number, point):
    """Of all steps: `info --at`."""
    dma = 0
    if number > 0:
        with open(os.path.join(directory, info(directory)["checkpoints"][number], "place")) as file:
            dma = int(re.search(r"^dma (\d+)$", file.read(), re.M).group(1))
    said = json.loads(run(REPRISE, "info", "--json", "--at", str(sum(point) + dma),
                          directory).stdout)
    words = ",".join(f"{i}:{at}" for i, at in enumerate(point))
    check(said["point"] == words and said["dma"] == dma, f"{said}, but {words} and {dma}")


@test
def replay_begins_at_any_checkpoint():
    """With vCPUs that race, and a disk whose writes to memory lie before and after."""
    directory, disk = work.place("regular"), work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(16 << 20)
    qemu = stock_command(
        "racey -t 2 -n 50000; dd if=/dev/vda of=/run/x bs=64k count=64 2>/dev/null; "
        "forkstorm -t 2 -n 15; sha256sum /dev/vda; private -t 2 -n 1", smp=2)
    recorded, _ = work.record(directory, "--checkpoint-interval", "0.3", "--", *qemu,
                              "-drive", f"file={disk},if=none,id=d,format=raw",
                              "-device", "virtio-blk-pci,drive=d")
    run(REPRISE, "verify", directory)
    said = info(directory)
    points = [[int(at.split(":")[1]) for at in point.split(",")]
              for point in said["checkpoint_points"]]
    check(len(points) >= 4 and points[0] == [0, 0], points)
    check(all(a <= b for one, two in zip(points, points[1:]) for a, b in zip(one, two)), points)
    for i, point in enumerate(points):
        lies_on_the_order(directory, i, point)
    last = len(points) - 1
    steps = [replays_from(directory, i, recorded) for i in (0, 1, last // 2, last)]
    check(sorted(steps, reverse=True) == steps, steps)
    replays_from(directory, 2, recorded, "--threads", "single")
    replays_from(directory, 2, recorded, "--", "-accel", "tcg,thread=multi,tb-size=8")
    os.remove(disk)


@test_each(["max", "cortex-a76"])
def a_cpu_that_sets_flags_in_page_tables_replays_from_checkpoints(cpu):
    directory = work.place("flags")
    recorded, _ = work.record(directory, "--checkpoint-interval", "0.5", "--",
                              *stock_command("forkstorm -t 1 -n 40"), "-cpu", f"{cpu},pmu=off")
    last = len(info(directory)["checkpoints"]) - 1
    check(last >= 2, "too few checkpoints")
    for number in (1, last):
        replays_from(directory, number, recorded)


@test_each(["max", "cortex-a76", "cortex-a76 smp"])
def flags_that_page_walks_set_are_in_the_next_checkpoint(how):
    """The guest waits between them, and nothing else writes to that page of tables."""
    cpu, *words = how.split()
    directory = work.place("late-flags")
    recorded, _ = work.record(directory, "--checkpoint-interval", "0.2",
                              *bare_guest.command(BIN, cpu, 2 if words else 1,
                                                  bare_guest.build(work, "LATE_FLAGS")))
    check(b"late-flags" in recorded and b"bad" not in recorded, recorded)
    for number in range(len(info(directory)["checkpoints"])):
        replays_from(directory, number, recorded)


@test
def a_checkpoint_is_made_when_asked_for():
    directory, path = work.place("asked"), work.path("qmp")
    process = work.start("record", "-o", directory, "--smp", "2", "--qmp", path, "--run",
                         "while :; do date; done")
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    for number in (1, 2):
        time.sleep(0.3)
        check(qmp("recorder-checkpoint") == {"return": {"name": f"checkpoint-{number}"}}, "name")
        made = qmp.event("RECORDER_CHECKPOINT")
        check(made["name"] == f"checkpoint-{number}" and made["bytes"] > 0, made)
        check(made["pause"] < MOST_PAUSE_S, made)
    time.sleep(0.5)             # for some output behind the last
    qmp("stop")
    check("return" in qmp("recorder-checkpoint"), "of a paused guest")
    check(qmp("recorder-stop") == {"return": {}}, "recorder-stop")
    check("nothing is being recorded" in str(qmp("recorder-checkpoint")), "not recorded")
    qmp("quit")
    end(process)
    qmp.close()
    recorded = work.console.read()
    check(len(info(directory)["checkpoints"]) == 4, "the last one is missing")
    for number in (1, 2):
        replays_from(directory, number, recorded)
    said = work.replay(directory, "--from", "3")[1]
    check("replayed identically" in said, said)


@test
def a_recorder_that_was_killed_replays_from_its_last_checkpoint():
    directory = work.place("killed")
    process = work.start("record", "-o", directory, "--smp", "2", "--checkpoint-interval", "0.5",
                         "--run", "while :; do date; done")
    work.console.wait_for(b"reprise: begin", process)
    time.sleep(2.5)
    kill_recorder(process)
    recorded = work.console.read()
    last = len(info(directory)["checkpoints"]) - 1
    check(last >= 2, "too few checkpoints")
    shown, said = work.replay(directory, "--from", str(last))
    check("replayed up to the cut" in said and shown in recorded, said)
    check(work.replay(directory)[0].endswith(shown), "another end from the start")


# --- bad input --------------------------------------------------------------------

@test
def a_checkpoint_that_is_not_there_is_refused():
    said = work.replay(work.hello()[0], "--from", "7", status=2)[1]
    check("has no checkpoint 7" in said and "reprise info" in said, said)
    said = work.replay(work.hello()[0], "--from", "-1", status=2)[1]
    check("--from is the number of a checkpoint" in said, said)


@test_each(["0.01", "-1", "nan"])
def an_interval_that_makes_no_sense_is_refused(interval):
    said = work.record(work.place("interval"), "--checkpoint-interval", interval, "--run", "true",
                       status=2)[1]
    check("checkpoint" in said and "interval" in said, said)


@work.shared
def to_be_damaged():
    directory = work.place("to-damage")
    work.record(directory, "--checkpoint-interval", "0.5", "--run", "sleep 1")
    return directory


@test_each(["place", "ram", "cpus"])
def a_damaged_checkpoint_is_refused(name):
    directory = shutil.copytree(to_be_damaged(), work.place("damaged"))
    path = os.path.join(directory, "checkpoint-1", name)
    os.truncate(path, os.path.getsize(path) // 2)
    said = work.replay(directory, "--from", "1", status=2)[1]
    check(path in said, said)
    check(path in run(REPRISE, "verify", directory, status=1).stdout, "verify")
    check("replayed identically" in work.replay(directory)[1], "the start is not damaged")


main(work)
