# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that go on from checkpoints of their recordings, with real devices."""

import filecmp
import os
import re
import shutil
import subprocess
import time

from tests.lib.guest_recording import GuestWorkspace, end, stock_command
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.tool import REPRISE, info, need
from tests.lib.workspace import PATIENCE_S

work = GuestWorkspace()
ARCHES = ["aarch64", "x86_64"]
BUSY = "forkstorm -n 40 && pipes -n 400 && echo all of it"
ENDED = b"reprise: end status=0"
# Clocks of the time of day, which is the host's, and the most bytes that their sections have.
FOLLOW_THE_HOST = {b"mc146818rtc": 300, b"pl031": 40}
RAM_START = {"aarch64": 0x40000000, "x86_64": 0}


def record_busy(arch):
    """Record a guest that forks, and sends messages, on two vCPUs; with checkpoints to go live."""
    need(arch)
    directory = work.place(f"busy-{arch}")
    output, said = work.record(directory, "--live", "--checkpoint-interval", "0.4", "--arch", arch,
                               "--smp", "2", "--run", BUSY)
    check("guest-shutdown" in said, said)
    return directory, output


busy = {arch: work.shared(lambda arch=arch: record_busy(arch)) for arch in ARCHES}


def checkpoints(directory):
    return info(directory)["checkpoints"]


def record_again(again, directory, number, *options):
    """Record it anew from a checkpoint; return what the guest showed, and what is said of it."""
    said = end(work.start("record", "-o", again, *options, "--continue", directory, "--from",
                          str(number), "--as-recorded")).splitlines()
    check(len(said) == 2 and said[0].startswith("reprise: starting /"), said)
    return work.console.read(), said[1]


@test_each(["x86_64"], long=["aarch64"])
def a_guest_goes_on_from_its_checkpoints(arch):
    """It runs on to its end, checks itself, and is recorded and replayed again."""
    directory, output = busy[arch]()
    n = len(checkpoints(directory))
    check(n > 4, f"only {n} checkpoints")
    work.check_replay(directory, output)
    for number in sorted({0, 1, n // 3, n // 2, n - 2}):
        again = work.place(f"again-{number}")
        shown, said = record_again(again, directory, number)
        check("guest-shutdown" in said, said)
        check(ENDED in shown and b"all of it" in shown, f"from {number}: {shown}")
        work.check_replay(again, shown)
        shutil.rmtree(again)


@test_each(ARCHES)
def it_begins_exactly_there(arch):
    """The first checkpoint of the new recording is that of the old one."""
    directory, _ = busy[arch]()
    names = checkpoints(directory)
    number = len(names) // 2
    again = work.place("again")
    record_again(again, directory, number, "--live", "--timeout", "0.1")
    check(filecmp.cmp(f"{directory}/{names[number]}/cpus", f"{again}/checkpoint-0/cpus",
                      shallow=False), "registers differ")
    with open(f"{directory}/{names[number]}/devices", "rb") as file:
        before = file.read()
    with open(f"{again}/checkpoint-0/devices", "rb") as file:
        after = file.read()
    check(len(before) == len(after), "devices have other sizes")
    for at in (i for i, (x, y) in enumerate(zip(before, after)) if x != y):
        check(any(at - before.rfind(name, 0, at) < n for name, n in FOLLOW_THE_HOST.items()
                  if name in before[:at]),
              f"byte {at} of the devices differs, after {before[max(at - 100, 0):at]}")
    old, new = (work.path(f"{name}.ram") for name in ("old", "new"))
    save_ram(directory, number, old, arch)
    save_ram(again, 0, new, arch)
    check(filecmp.cmp(old, new, shallow=False), "memory differs")


def start_paused(arch, *more):
    """Start the recorded machine, or another one, and return it and its QMP."""
    path = work.place("qmp")
    process = subprocess.Popen([*stock_command(BUSY, smp=2, arch=arch), "-S", "-qmp",
                                f"unix:{path},server=on,wait=off", *more],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, encoding="utf-8")
    after_test(process.wait, PATIENCE_S)        # what comes last is done first
    after_test(process.kill)
    return process, Qmp(path, process)


def save_ram(directory, number, path, arch):
    """Bring a machine to a checkpoint, and save its memory."""
    process, qmp = start_paused(arch)
    answer = qmp("recorder-live", **{"directory": directory, "from": number})
    check(answer == {"return": {}}, answer)
    check(qmp("query-status")["return"]["status"] == "paused", "it is not paused")
    answer = qmp("pmemsave", val=RAM_START[arch], size=512 << 20, filename=path)
    check(answer == {"return": {}}, answer)
    qmp("quit")
    process.wait(PATIENCE_S)


COUNT = "i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo n $i at $(cut -d. -f1 /proc/uptime); " \
    "sleep 0.05; done"


@test_each(["aarch64"], long=["x86_64"])
def time_goes_on_where_it_was(arch):
    """Its numbers have no gap, and its clock does not jump."""
    directory = work.place("counter")
    work.record(directory, "--live", "--checkpoint-interval", "0.5", "--arch", arch, "--run", COUNT)
    names = checkpoints(directory)
    shown = run(REPRISE, "live", directory, "--from", str(len(names) - 2), "--as-recorded").stdout
    told = [(int(n), int(at)) for n, at in re.findall(r"^n (\d+) at (\d+)\r?$", shown, re.M)]
    check(0 < len(told) < 40, f"nothing to go on with: {shown}")
    check([n for n, _ in told] == list(range(told[0][0], 41)), told)
    check(all(0 <= b[1] - a[1] <= 1 for a, b in zip(told, told[1:])), told)


@test
def forks_differ_by_what_is_typed():
    """20 guests go on from one checkpoint; each gets another line on its console."""
    directory, socket = work.place("asks"), work.path("qmp")
    recorder = work.start("record", "-o", directory, "--live", "--qmp", socket, "--run",
                          "echo who; read who < /dev/console; echo this is $who")
    qmp = Qmp(socket, recorder)
    while not re.search(rb"^who\r?$", work.console.read(), re.M):      # not earlier
        time.sleep(0.05)
    check(qmp("recorder-checkpoint")["return"]["name"] == "checkpoint-1", "its name")
    qmp.event("RECORDER_CHECKPOINT")
    qmp("quit")
    qmp.close()
    end(recorder)
    for i in range(20):
        socket = work.path(f"qmp-{i}")
        process = subprocess.Popen([REPRISE, "live", directory, "--as-recorded", "--qmp", socket],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8")
        after_test(process.kill)
        qmp = Qmp(socket, process)
        while qmp("query-status")["return"]["status"] != "running":
            time.sleep(0.01)
        shown, said = process.communicate(f"fork {i}\n", timeout=PATIENCE_S)
        check(process.returncode == 0 and f"this is fork {i}" in shown, f"{i}: {shown}{said}")
        qmp.close()


@test
def the_command_is_shown_and_not_run():
    directory, _ = busy["aarch64"]()
    shown = run(REPRISE, "live", directory, "--print").stdout
    check(re.search(r"^\S*/qemu-system-aarch64 .* -smp 2 ", shown) and "reprise-qmp" not in shown,
          shown)
    said = one_line(run(REPRISE, "live", directory, status=2).stderr)
    check("--as-recorded" in said, said)
    info_said = run(REPRISE, "info", directory).stdout
    check(re.search(r"^goes live +yes", info_said, re.M), info_said)


def refuse(said, *args):
    """The tool refuses @args with one line that contains @said."""
    line = one_line(run(REPRISE, *args, status=2).stderr)
    check(said in line, line)


@test
def what_cannot_go_live_is_refused():
    directory, _ = busy["aarch64"]()
    command = stock_command(BUSY, smp=2)
    refuse("was not recorded to go live: record with --live", "live", work.hello()[0], "--",
           *command)
    refuse("has no checkpoint 1000", "live", directory, "--from", "1000", "--", *command)
    refuse("another machine: it has 3 vCPUs", "live", directory, "--", *command, "-smp", "3")
    refuse("another machine: its CPU is 'cortex-a53", "live", directory, "--", *command,
           "-cpu", "cortex-a53")
    refuse("this machine has other devices: /machine/peripheral-anon/device[0] virtio-rng-pci was "
           "not recorded", "live", directory, "--", *command, "-device", "virtio-rng-pci,addr=5")


@test
def damaged_devices_are_refused():
    """Nor is a recording without them taken for one that has them."""
    directory = shutil.copytree(busy["aarch64"]()[0], work.place("damaged"))
    command = stock_command(BUSY, smp=2)
    path = f"{directory}/checkpoint-0/devices"
    with open(path, "r+b") as file:
        file.seek(1000)
        byte = file.read(1)
        file.seek(1000)
        file.write(bytes([byte[0] ^ 1]))
    refuse("checkpoint-0/devices: wrong checksum", "live", directory, "--from", "0", "--", *command)
    os.unlink(path)
    refuse("checkpoint 0 of", "live", directory, "--from", "0", "--", *command)


@test
def a_machine_that_was_loaded_in_part_does_not_run():
    directory = shutil.copytree(busy["aarch64"]()[0], work.place("damaged-ram"))
    os.truncate(f"{directory}/checkpoint-1/cpus", 10)
    _, qmp = start_paused("aarch64")
    answer = qmp("recorder-live", **{"directory": directory, "from": 1})
    check("checkpoint-1/cpus" in answer["error"]["desc"], answer)
    check("error" in qmp("cont"), "it runs")


@test
def nobody_is_told_that_the_machine_stands_still():
    _, qmp = start_paused("aarch64")
    check(qmp("recorder-start", **{"directory": work.place("quiet"), "live-checkpoints": True}) ==
          {"return": {}}, "recorder-start")
    qmp("cont")
    check("return" in qmp("recorder-checkpoint"), "recorder-checkpoint")
    qmp.event("RECORDER_CHECKPOINT")
    check(not qmp.named("STOP") and len(qmp.named("RESUME")) == 1, qmp.events)
    check(qmp("query-status")["return"]["running"], "it does not run")


@test
def a_recording_with_a_disk_that_may_change_is_refused():
    image = work.path("disk")
    with open(image, "wb") as file:
        file.truncate(1 << 20)
    command = [*stock_command("true"), "-drive", f"file={image},format=raw,if=virtio,id=data"]
    line = one_line(run(REPRISE, "record", "-o", work.place("disk-recording"), "--live", "--",
                        *command, status=2).stderr)
    check("writes to disk data" in line and "read-only" in line, line)


@test
def a_guest_that_has_run_does_not_go_live():
    directory, _ = busy["aarch64"]()
    _, qmp = start_paused("aarch64")
    qmp("cont")
    answer = qmp("recorder-live", directory=directory)
    check("the guest has run already" in answer["error"]["desc"], answer)


main(work)
