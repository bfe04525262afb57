# SPDX-License-Identifier: GPL-2.0-or-later
"""The flight recorder: the last seconds only, in bounded space, until something happens."""

import os
import shutil
import signal
import time

from tests.lib.checkout import BUILD
from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, emulator_of, info

work = GuestWorkspace()
BUSY = "while :; do forkstorm -t 2 -n 5; racey -t 2 -n 5000; date; done"
KEEP_S = 2
CHANGE_INPUT = os.path.join(BUILD, "core/tests/tools/change-input")


def blocks(directory):
    """Bytes that it takes on disk: holes do not count."""
    taken = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                taken += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass            # dropped meanwhile
    return taken


def is_good_from_the_middle(directory, recorded):
    """It begins somewhere later, is sound, and replays from its first and last checkpoint."""
    said = info(directory)
    check(all(int(at.split(":")[1]) > 0 for at in said["checkpoint_points"][0].split(",")), said)
    run(REPRISE, "verify", directory)
    for number in (0, len(said["checkpoints"]) - 1):
        shown, line = work.replay(directory, "--from", str(number))
        check("replayed identically" in line, line)
        check(recorded.endswith(shown), f"another end:\n{shown}")
    check(len(run(REPRISE, "dump", directory).stdout.splitlines()) == said["log_events"], "dump")


def knows_registers_it_begins_with(directory):
    """A digest is changed in a trace of its replay: then that differs, and no register does."""
    trace, other = work.place("trace"), work.place("other")
    work.replay(directory, "--trace", trace, "--trace-interval", "1000000")
    os.mkdir(other)
    shutil.copy(os.path.join(trace, "arch"), other)
    begins = int(info(directory)["checkpoint_points"][0].split(",")[0].split(":")[1])
    at = run(CHANGE_INPUT, trace, other, "digest", str(begins + 1)).stdout.strip()
    said = run(REPRISE, "compare", directory, other, status=1).stdout.splitlines()
    check(f"vCPU 0 differs at position {at}, the first that both have" in said[0], said)
    check(said[2].startswith("vCPU 1 is the same"), said)


@test
def the_last_seconds_are_kept_in_bounded_space():
    directory, path = work.place("flight"), work.path("qmp")
    process = work.start("record", "-o", directory, "--smp", "2", "--keep-seconds", str(KEEP_S),
                         "--qmp", path, "--run", BUSY)
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    taken, dropped = [], 0
    while dropped < 3:
        first = info(directory)["checkpoints"][0]
        while info(directory)["checkpoints"][0] == first:       # also while logs are being dropped
            taken.append(blocks(directory))
            rate = qmp("query-recorder")["return"]["rate"]
            check(rate < 1e9, f"{rate} bytes per second")
        dropped += 1
    told = qmp("query-recorder")["return"]["stored-bytes"]
    check(told < 2 * max(taken), f"it says that it has {told} bytes: what was dropped, too?")
    check(qmp("recorder-stop") == {"return": {}}, "recorder-stop")
    qmp("quit")
    end(process)
    qmp.close()
    is_good_from_the_middle(directory, work.console.read())
    knows_registers_it_begins_with(directory)
    half = len(taken) // 2
    check(max(taken[half:]) < 2 * max(taken[:half]), f"it grows: {taken}")


@test
def a_guest_that_panics_ends_it():
    """Its console says so; it does not restart, and so would be silent for ever."""
    directory = work.place("panic")
    qemu = stock_command("for i in 1 2 3 4 5 6; do forkstorm -t 2 -n 10; done; "
                         "echo c >/proc/sysrq-trigger", smp=2, boot=("--append", "panic=0"))
    recorded, line = work.record(directory, "--keep-seconds", str(KEEP_S), "--", *qemu)
    check("guest-panic" in line, line)
    check(b"Kernel panic - not syncing" in recorded and b"end Kernel panic" in recorded, recorded)
    shown, line = work.replay(directory)
    check("replayed identically" in line and b"end Kernel panic" in shown, line)


@test_each(["shutdown", "pause", "none"])
def a_device_that_tells_of_a_panic_ends_it(action):
    """Whatever QEMU does then.  Debian's cloud kernel has no driver, so a program is the driver."""
    directory, device = work.place("pvpanic"), "/sys/bus/pci/devices/0000:00:01.0"
    qemu = stock_command(f"echo 1 >{device}/enable; read -r start rest <{device}/resource; "
                         "devmem $start 8 1; echo it runs; while :; do devmem $start 8 1; done",
                         smp=2)
    recorded, line = work.record(directory, "--keep-seconds", str(KEEP_S), "--", *qemu,
                                 "-device", "pvpanic-pci,addr=1", "-action", f"panic={action}")
    check("guest-panic" in line, line)
    check((b"\nit runs" in recorded) == (action == "none"), recorded)
    shown, line = work.replay(directory)
    check("replayed identically" in line and recorded.endswith(shown), f"{line}\n{shown}")


@test
def a_signal_ends_it():
    directory = work.place("signal")
    process = work.start("record", "-o", directory, "--keep-seconds", str(KEEP_S), "--run", BUSY)
    work.console.wait_for(b" UTC ", process)
    os.kill(emulator_of(process), signal.SIGUSR2)
    check("signal" in end(process), "why did it end?")
    check("replayed identically" in work.replay(directory)[1], "replay")


@test
def one_that_was_killed_replays():
    directory = work.place("killed")
    process = work.start("record", "-o", directory, "--smp", "2", "--keep-seconds", str(KEEP_S),
                         "--run", BUSY)
    work.console.wait_for(b"reprise: begin", process)
    first = info(directory)["checkpoints"][0]
    while info(directory)["checkpoints"][0] == first:
        time.sleep(0.1)
    kill_recorder(process)
    shown, line = work.replay(directory)
    check("replayed up to the cut" in line and shown in work.console.read(), line)
    run(REPRISE, "verify", directory)


@test_each(["0.2", "-1", "nan"])
def a_time_that_makes_no_sense_is_refused(seconds):
    line = work.record(work.place("x"), "--keep-seconds", seconds, "--run", "true", status=2)[1]
    check("keep" in line or "kept" in line, line)


main(work)
