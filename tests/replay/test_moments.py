# SPDX-License-Identifier: GPL-2.0-or-later
"""Replays that end at a moment: the guest is the same there, from wherever one comes to it."""

import contextlib
import hashlib
import os
import random
import re
import time

from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, info, last_moment

work = GuestWorkspace()
MEM_MIB = 128
RAM_BASE = 0x40000000
FEW = 3
WINDOW = 200000             # steps
HIDDEN = 2                  # steps of an exception that nobody can stop before


@work.shared
def recorded():
    """Two vCPUs that race, fault and are interrupted; directory, and its last moment."""
    directory = work.place("moments")
    work.record(directory, "--checkpoint-interval", "0.4", "--", *stock_command(
        "forkstorm -t 2 -n 10; racey -t 2 -n 20000; pipes -t 2 -n 50", smp=2,
        boot=("--mem", str(MEM_MIB))))
    check(len(info(directory)["checkpoints"]) >= 3, "too few checkpoints")
    return directory, last_moment(directory)


def state(qmp):
    """When it has stopped: where, all registers, all memory."""
    ended = qmp.replayed()
    check(ended["identical"], ended)
    registers = qmp("human-monitor-command", **{"command-line": "info registers -a"})["return"]
    ram = work.path("ram")
    qmp("pmemsave", val=RAM_BASE, size=MEM_MIB << 20, filename=ram)
    with open(ram, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    os.remove(ram)
    return ended["cut"], registers, digest


@contextlib.contextmanager
def replayed_until(directory, moment, *args):
    socket = work.path("qmp")
    process = work.start("replay", directory, "--until", str(moment), "--qmp", socket,
                         "--pause-at-end", *args)
    qmp = Qmp(socket, process)
    yield qmp
    qmp("quit")
    end(process)
    qmp.close()


def state_at(directory, moment, *args):
    with replayed_until(directory, moment, *args) as qmp:
        return state(qmp)


def positions(point):
    return [int(part.split(":")[1]) for part in point.split(",")]


def point_at(directory, moment):
    told = run(REPRISE, "info", "--at", str(moment), directory).stdout
    return positions(re.search(r": (0:\S+),", told).group(1))


def words(point):
    return ",".join(f"{i}:{position}" for i, position in enumerate(point))


@test
def a_moment_is_the_same_from_wherever_one_comes_to_it():
    directory, last = recorded()
    for moment in random.Random(1).sample(range(last), FEW):
        states = [state_at(directory, moment, *args) for args in
                  ([], ["--from", "0"], ["--threads", "single"],
                   ["--", "-accel", "tcg,thread=multi,one-insn-per-tb=on"])]
        check(all(state == states[0] for state in states), f"moment {moment}: {states}")
        wanted = point_at(directory, moment)
        check(all(0 <= seen - want <= HIDDEN
                  for seen, want in zip(positions(states[0][0]), wanted)),
              f"{states[0][0]}, but {wanted}")


def faults_after(directory, begin):
    """(vCPU, positions between an instruction and its exception, where nobody looks), if any."""
    trace = work.place("trace")
    after = [position + WINDOW for position in begin]
    work.replay(directory, "--trace", trace, "--trace-interval", "1", "--trace-from", words(begin),
                "--trace-to", words(after), "--from", "0")
    for vcpu in range(len(begin)):
        dump = run(REPRISE, "dump", "--vcpu", str(vcpu), trace).stdout
        seen = {int(at) for at in re.findall(r"@(\d+)  digest", dump)}
        faults = [at for at in range(min(seen), max(seen)) if at not in seen] if seen else []
        if faults:
            return vcpu, faults
    return None


def moment_of(directory, vcpu, position, last):
    """The first one at which this vCPU is there."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        if point_at(directory, middle)[vcpu] < position:
            low = middle + 1
        else:
            high = middle
    return low


@test
def nobody_stops_between_an_instruction_and_its_exception():
    directory, last = recorded()
    # A vCPU that waits for the other one makes few: look at both, and on.
    places = (point_at(directory, last * part // 20)
              for part in (10, 8, 12, 14, 16, *range(3, 20, 2)))
    found = next(filter(None, (faults_after(directory, begin) for begin in places)), None)
    check(found, "no fault was found")
    vcpu, faults = found
    for fault in faults[:FEW]:
        moment = moment_of(directory, vcpu, fault, last)
        check(point_at(directory, moment)[vcpu] == fault, f"moment {moment} is not at {fault}")
        states = [state_at(directory, moment, *args) for args in ([], ["--threads", "single"])]
        after = next(at for at in range(fault, fault + HIDDEN + 1) if at not in faults)
        check(positions(states[0][0])[vcpu] == after, f"stopped at {states[0][0]}, not at {after}")
        check(states[0] == states[1], states)


@test
def one_replay_can_go_back_and_forth():
    directory, last = recorded()
    moments = [last * tenth // 10 for tenth in (7, 3, 9, 5)]
    with replayed_until(directory, moments[0]) as qmp:
        seen = {moments[0]: state(qmp)}
        for moment in [*moments[1:], *moments]:
            check(qmp("recorder-replay", directory=directory, until=moment) == {"return": {}},
                  moment)
            now = state(qmp)
            check(seen.setdefault(moment, now) == now, f"{moment} was another one before")
        refused = qmp("recorder-replay", directory=directory, until=last + 1)["error"]["desc"]
        check("outside" in refused, "a moment outside")
        qmp("recorder-replay", directory=directory)
        check(qmp.replayed() == {"identical": True}, "the end")


@test
def what_a_disk_writes_and_what_was_cut_off_have_moments_too():
    """Killed while a disk writes to memory: DMA is a stream of the order like any other."""
    directory, disk = work.place("disk"), work.path("disk.img")
    with open(disk, "wb") as file:
        file.write(os.urandom(16 << 20))
    guest = stock_command("while :; do echo 3 >/proc/sys/vm/drop_caches; sha256sum /dev/vda; done",
                          smp=2, boot=("--mem", str(MEM_MIB)))
    process = work.start("record", "-o", directory, "--checkpoint-interval", "0.4", "--", *guest,
                         "-drive", f"file={disk},if=none,id=d,format=raw",
                         "-device", "virtio-blk-pci,drive=d")
    while work.console.read().count(b"/dev/vda") < 2:
        check(process.poll() is None, "it ended")
        time.sleep(0.05)
    kill_recorder(process)
    last = last_moment(directory)
    for moment in (last * 9 // 10, last - 1000):
        states = [state_at(directory, moment, *args) for args in
                  ([], ["--from", "0"], ["--threads", "single"])]
        check(all(state == states[0] for state in states), f"moment {moment}: {states}")
    os.remove(disk)


@test
def the_last_moment_is_the_end():
    directory, last = recorded()
    point = state_at(directory, last)[0]
    check(point == info(directory)["end_point"], point)


@test
def the_tool_says_where_it_is():
    directory, last = recorded()
    line = work.replay(directory, "--until", str(last // 3))[1]
    check(re.match(rf"reprise: replayed up to moment {last // 3}, which is at 0:\d+,1:\d+, in ",
                   line),
          line)


@test_each(["x", "-1", "1.5", ""])
def what_is_no_moment_is_refused(moment):
    line = work.replay(work.hello()[0], "--until", moment, status=2)[1]
    check(f"'{moment}'" in line, line)


@test
def moments_outside_are_refused():
    directory, last = recorded()
    check("outside" in work.replay(directory, "--until", str(last + 1), status=2)[1],
          "behind the end")
    line = work.replay(directory, "--until", "5", "--from", "2", status=2)[1]
    check("before the checkpoint" in line, line)


@test
def a_damaged_recording_is_refused():
    directory = work.copy_of_hello()
    with open(os.path.join(directory, "vcpu-0.order"), "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    check("vcpu-0.order" in work.replay(directory, "--until", "1000", status=2)[1], "damage")
    check("vcpu-0.order" in one_line(run(REPRISE, "info", "--at", "1000", directory,
                                         status=2).stderr), "damage")


main(work)
