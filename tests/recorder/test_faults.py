# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks that fail, and recordings that disappear.

The guest goes on, whatever happens.  A recording that cannot start leaves nothing behind; one that
cannot go on ends and says why, and what is on disk replays.
"""

import concurrent.futures
import os
import re
import shutil
import time

from tests.lib.faulty_disk import FaultyDisk
from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.live_guest import live_guest, status
from tests.lib.process import one_line, run
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.tool import REPRISE, info
from tests.lib.workspace import PATIENCE_S

work = GuestWorkspace()
disk = FaultyDisk(work)
EIO = "Input/output error"
OFTEN = {"digest-interval": 1000}               # so that logs grow
CHECKPOINTS = {"checkpoint-interval": 0.3}
AT_ONCE_S = 20              # on a busy host
FLIGHT = {"keep-seconds": 1, "checkpoint-interval": 0.3}
# Writes much to memory, so that there is soon something that a flight recorder can drop.
RUN = "dd if=/dev/urandom of=/run/a bs=64k count=128; while :; do cp /run/a /run/b; done"


def is_unharmed(qmp):
    check(status(qmp)["state"] == "off", status(qmp))
    check(qmp("query-status")["return"]["running"], "the guest does not go on")
    check("blocked-reasons" not in qmp("query-migrate")["return"], "it cannot be saved any more")


def ends_early(qmp, directory):
    """Waits for it; the reason."""
    ended = qmp.event("RECORDER_STOPPED")
    disk.let_work()
    check(ended["directory"] == directory and not ended["complete"], ended)
    check(status(qmp)["last-recording"] == ended, status(qmp))
    is_unharmed(qmp)
    return one_line(ended["reason"])


def checkpoints_of(directory):
    with open(os.path.join(directory, "manifest")) as file:
        names = next(line for line in file if line.startswith("names="))
    return names.strip().partition("=")[2].strip(";").split(";")


def is_sound(directory, *more):
    """What is there can be replayed, and there is no @more than that; what replay says."""
    run(REPRISE, "verify", directory)
    named = checkpoints_of(directory)
    said = work.replay(directory, "--from", str(len(named) - 1))[1]
    check("the recording is not complete" in said, said)
    left = {name for name in os.listdir(directory) if name.startswith("checkpoint-")}
    check(left == set(named) | set(more), f"{left} are there, {named} are named")
    for folder, _, files in os.walk(directory):
        check(not any(name.endswith(".new") for name in files), f"{folder}: {files}")
    return said


# --- the start --------------------------------------------------------------------------

LIVE = {"live-checkpoints": True}       # so there is a file of devices
START = [
    ("write", 0, "*/checkpoint-0/cpus"), ("write", 1000, "*/checkpoint-0/cpus"),
    ("write", 0, "*/checkpoint-0/devices"), ("write", 10, "*/checkpoint-0/sums"),
    ("pwrite", 0, "*/checkpoint-0/ram"), ("pwrite", 1000000, "*/checkpoint-0/ram"),
    ("fsync", 1, "*/checkpoint-0/ram"), ("fsync", 0, "*/checkpoint-0/cpus"),
    ("fsync", 0, "*/checkpoint-0/devices"), ("fsync", 0, "*/checkpoint-0"),
    ("write", 0, "*/vcpu-0.order"), ("write", 31, "*/dma.order"),
    ("write", 0, "*/manifest.new"), ("write", 100, "*/manifest.new"),
    ("fsync", 0, "*/manifest.new"), ("rename", 0, "*manifest"),
]


@test
def a_disk_that_fails_at_the_start_leaves_the_directory_as_it_was():
    """Nor is a later recording hurt by the episodes of one that did not start."""
    directory = work.place("start")
    with live_guest(work, env=disk.env()) as guest:
        qmp = guest.connect()
        for what, count, pattern in START:
            disk.let_fail(what, count, pattern)
            answer = qmp("recorder-start", directory=directory, protocol="fdr,karma", **LIVE)
            disk.let_work()
            line = one_line(answer.get("error", {}).get("desc", str(answer)))
            check(EIO in line and pattern.strip("*") in line, f"{what} {count} {pattern}: {line}")
            check(os.listdir(directory) == [], f"{pattern}: {os.listdir(directory)}")
            is_unharmed(qmp)
        check(not qmp.named("RECORDER_STARTED"), "it said that it had started")
        check(qmp("recorder-start", directory=directory) == {"return": {}}, "start")
        check(qmp("recorder-stop") == {"return": {}}, "stop")
        check(status(qmp)["last-recording"]["complete"], status(qmp))
        qmp.close()
    check("replayed identically" in work.replay(directory)[1], "replay")


@test
def the_tool_says_that_the_disk_failed_at_the_start():
    directory = work.place("start-tool")
    disk.let_fail("pwrite", 1000000, "*/checkpoint-0/ram")
    after_test(disk.let_work)
    process = work.start("record", "-o", directory, "--run", "true", env=disk.env())
    line = one_line(end(process, 2))
    check(EIO in line and f"{directory}/checkpoint-0/ram" in line, line)
    check(os.listdir(directory) == [], os.listdir(directory))


SLOW_MS = 1500


def start_slowly(directory, guest):
    """Answers when the start has ended, which is ours then."""
    qmp = guest.connect()
    disk.let_fail("slow", SLOW_MS, "*/checkpoint-0/ram")
    after_test(disk.let_work)
    pool = concurrent.futures.ThreadPoolExecutor()
    after_test(pool.shutdown)
    started = pool.submit(qmp, "recorder-start", directory=directory)
    while not os.path.exists(f"{directory}/vcpu-0.order"):
        time.sleep(0.01)
    return qmp, started


@test
def a_disk_that_is_slow_at_the_start_leaves_the_guest_its_timers():
    directory = work.place("slow")
    with live_guest(work, "while :; do date; sleep 0.02; done", env=disk.env()) as guest:
        work.console.wait_for(b" UTC ", guest.process)
        qmp, started = start_slowly(directory, guest)
        before = work.console.read().count(b" UTC ")
        check(started.result() == {"return": {}}, started.result())
        slept = work.console.read().count(b" UTC ") - before
        check(slept > 5, f"it slept {slept} times in {SLOW_MS} ms")
        disk.let_work()
        qmp("recorder-stop")
        qmp.close()
    check("replayed identically" in work.replay(directory)[1], "replay")


@test
def qemu_may_be_ended_while_a_recording_starts():
    directory = work.place("slow-end")
    with live_guest(work, env=disk.env()) as guest:
        qmp, started = start_slowly(directory, guest)
        guest.process.terminate()
        check(guest.process.wait(PATIENCE_S) == 0, "status")
        check(started.exception() or started.result() == {"return": {}}, "the answer, if any")
        qmp.close()
    check(info(directory)["end_reason"] == "quit", info(directory))
    check("replayed identically" in work.replay(directory)[1], "replay")


# --- later ---------------------------------------------------------------------------------

LATER = {
    "the first block": ("write", 32, "*/vcpu-0.order", {}),
    "an order log": ("write", 100000, "*/vcpu-1.order", OFTEN),
    "a data log": ("write", 3000, "*/vcpu-0.data", {}),
    "registers": ("write", 0, "*/checkpoint-2/cpus", CHECKPOINTS),
    "sums": ("write", 10, "*/checkpoint-2/sums", CHECKPOINTS),
    "memory": ("pwrite", 50000, "*/checkpoint-2/ram", CHECKPOINTS),
    "the end of memory": ("fsync", 1, "*/checkpoint-2/ram", CHECKPOINTS),
    "the names of files": ("fsync", 0, "*/checkpoint-2", CHECKPOINTS),
    "a place": ("write", 100, "*/checkpoint-2/place", CHECKPOINTS),
    "the manifest": ("write", 600, "*/manifest.new", CHECKPOINTS),
    "a merge": ("pwrite", 1000000, "*/ram.new", FLIGHT),
    "the end of a merge": ("rename", 0, "*/ram", FLIGHT),
    "the start of a log": ("pwrite", 0, "*/vcpu-1.order", FLIGHT),
    "a hole": ("fallocate", 1, "*/vcpu-0.order", FLIGHT),
    "a later hole": ("fallocate", 2, "*/vcpu-0.order", FLIGHT),
    # Then the logs of episodes do not begin at the same cut.
    "the start of a karma log": ("pwrite", 0, "*/vcpu-1.karma", {**FLIGHT, "protocol": "karma"}),
    "the start of a rerun log": ("pwrite", 0, "*/dma.rerun", {**FLIGHT, "protocol": "rerun"}),
}


def name_of(what):
    return what.replace(" ", "-")


@test
def a_disk_that_fails_later_ends_the_recording():
    """What was written before is sound, and nothing else is left."""
    with live_guest(work, RUN, env=disk.env()) as guest:
        qmp = guest.connect()
        for what, (function, count, pattern, options) in LATER.items():
            directory = work.place(name_of(what))
            disk.let_fail(function, count, pattern)
            answer = qmp("recorder-start", directory=directory, **options)
            check(answer == {"return": {}}, f"{what}: {answer}")
            reason = ends_early(qmp, directory)
            check(EIO in reason and os.path.basename(pattern) in reason, f"{what}: {reason}")
        qmp.close()
    for what in LATER:
        # A checkpoint is complete before the manifest names it.
        is_sound(work.path(name_of(what)),
                 *(["checkpoint-1"] if what == "the manifest" else []))


AT_THE_END = {
    "the last block": ("write", 33, "*/dma.order"),
    "a log's sync": ("fsync", 0, "*/vcpu-1.data"),
    "the last manifest": ("write", 100, "*/manifest.new"),
}


@test
def a_disk_that_fails_at_the_end_is_told():
    """It may be that only the manifest does not say so."""
    with live_guest(work, env=disk.env()) as guest:
        qmp = guest.connect()
        for what, rule in AT_THE_END.items():
            directory = work.place(name_of(what))
            check(qmp("recorder-start", directory=directory) == {"return": {}}, what)
            disk.let_fail(*rule)
            check(qmp("recorder-stop") == {"return": {}}, what)
            reason = ends_early(qmp, directory)
            check(EIO in reason and os.path.basename(rule[2]) in reason, f"{what}: {reason}")
        qmp.close()
    for what in AT_THE_END:
        is_sound(work.path(name_of(what)))


@test
def the_tool_says_that_the_disk_failed():
    for rule in (("write", 20000, "*/vcpu-0.order"), ("write", 1000, "*/manifest.new")):
        directory = work.place("later-tool")
        disk.let_fail(*rule)
        after_test(disk.let_work)
        process = work.start("record", "-o", directory, "--mem", "128", "--run",
                             "echo hello", env=disk.env())
        line = one_line(end(process, 1))
        check(EIO in line and f"{directory}{rule[2][1:]}" in line, line)
        disk.let_work()
        is_sound(directory)


# --- writes in parts ----------------------------------------------------------------------

@test
def writes_that_do_a_part_make_the_same_recording():
    """The tool copies it in parts, too."""
    directory, copy = work.place("parts"), work.place("unpacked")
    packed = [f"{directory}.tar", f"{copy}.tar"]
    disk.let_fail("short", 1, f"{work.directory}/*")
    after_test(disk.let_work)
    process = work.start("record", "-o", directory, "--smp", "2", "--mem", "128",
                         "--checkpoint-interval", "0.3", "--run", "forkstorm -t 2 -n 4",
                         env=disk.env())
    said = one_line(end(process))
    check("guest-shutdown" in said, said)
    recorded = work.console.read()
    run(REPRISE, "pack", directory, packed[0], env=disk.env())
    run(REPRISE, "unpack", packed[0], copy, env=disk.env())
    disk.let_work()
    run(REPRISE, "pack", copy, packed[1])
    run("cmp", *packed)
    run(REPRISE, "verify", copy)
    for arguments in ([], ["--from", "1"]):
        shown, said = work.replay(copy, *arguments)
        check("replayed identically" in said and recorded.endswith(shown), said)


@test
def writes_that_do_a_part_do_not_end_a_flight():
    """Also that by which the start of a log is dropped."""
    directory = work.place("flight")
    disk.let_fail("short", 2, f"{directory}/*")
    after_test(disk.let_work)
    with live_guest(work, RUN, env=disk.env()) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory, **FLIGHT) == {"return": {}}, "start")
        while checkpoints_of(directory)[0] == "checkpoint-0":
            check(status(qmp)["state"] == "recording", status(qmp))
            time.sleep(0.1)
        time.sleep(0.5)
        check(qmp("recorder-stop") == {"return": {}}, "stop")
        check(status(qmp)["last-recording"]["complete"], status(qmp))
        qmp.close()
    disk.let_work()
    run(REPRISE, "verify", directory)
    check("replayed identically" in work.replay(directory)[1], "replay")


# --- directories that disappear ------------------------------------------------------------

GONE = "it was renamed or removed"
HOW = {"alone": {}, "with checkpoints": CHECKPOINTS, "flight recorder": FLIGHT}


def rename(directory):
    os.rename(directory, directory + ".away")


def replace(directory):
    rename(directory)
    os.mkdir(directory)


def remove(directory):
    """Also while the recorder adds to it."""
    while os.path.exists(directory):
        shutil.rmtree(directory, ignore_errors=True)


DISAPPEAR = {"renamed": rename, "replaced": replace, "removed": remove}


def is_told(how, directory, reason):
    """While it is being removed, a file may be missed first."""
    expected = f"cannot write {re.escape(directory)}: {GONE}"
    if how == "removed":
        expected += rf"|cannot \w+ {re.escape(directory)}/\S+: (it was removed|No such file or .*)"
    check(re.fullmatch(expected, reason), reason)


@test_each(HOW)
def a_directory_that_disappears_ends_the_recording(how):
    """Nothing appears again where it was, and one that was renamed replays."""
    with live_guest(work, RUN) as guest:
        qmp = guest.connect()
        for what, disappear in DISAPPEAR.items():
            directory = work.place("gone")
            shutil.rmtree(directory + ".away", ignore_errors=True)
            check(qmp("recorder-start", directory=directory, **HOW[how]) == {"return": {}}, how)
            time.sleep(0.8)
            disappear(directory)
            began = time.monotonic()
            reason = ends_early(qmp, directory)
            is_told(what, directory, reason)
            check(time.monotonic() - began < AT_ONCE_S, "it took long")
            if what == "replaced":
                check(os.listdir(directory) == [], os.listdir(directory))
            else:
                check(not os.path.exists(directory), os.listdir(work.directory))
            if what == "renamed":
                check(GONE in is_sound(directory + ".away"), "why?")
        qmp.close()


@test
def a_directory_of_a_paused_guest_may_disappear_too():
    directory = work.place("paused")
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory) == {"return": {}}, "start")
        qmp("stop")
        remove(directory)
        ended = qmp.event("RECORDER_STOPPED")
        is_told("removed", directory, ended["reason"])
        check(not qmp("query-status")["return"]["running"], "it runs")
        qmp.close()


@test_each(["renamed", "removed"])
def the_tool_says_that_the_directory_disappeared(how):
    directory = work.place("gone-tool")
    process = work.start("record", "-o", directory, "--run", "while :; do date; done")
    work.console.wait_for(b"reprise: begin", process)
    DISAPPEAR[how](directory)
    line = one_line(end(process, 1))
    said, _, reason = line.partition(" was cut off: ")
    check(said == f"reprise: {directory}", line)
    is_told(how, directory, reason)
    check(not os.path.exists(directory), "it is there again")


main(work)
