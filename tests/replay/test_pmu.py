# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that use the performance monitor (PMU): counters, overflows, their interrupts."""

import time

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.live_guest import live_guest
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, info

work = GuestWorkspace()
NO_PMU, PMU = "cortex-a72,pmu=off", "cortex-a72"


def check_replay(directory, output, *options):
    replayed, said = work.replay(directory, *options)
    check("replayed identically" in said, said)
    check(output.endswith(replayed),
          f"recorded:\n{output}\nreplayed {options}:\n{replayed}")


def check_checkpoints(directory, output, least):
    """It has so many checkpoints at least, and replays from some: on a busy host there are many."""
    checkpoints = len(info(directory)["checkpoints"])
    check(checkpoints >= least, f"only {checkpoints} checkpoints")
    for number in sorted({0, 1, 2, checkpoints // 2, checkpoints - 1} & set(range(checkpoints))):
        check_replay(directory, output, "--from", str(number))


@test_each(["cortex-a72 1", "cortex-a72 2", "neoverse-n1 2", "max 1"])
def counters_of_a_bare_guest_replay(what):
    """Some checkpoints lie where the counters run, and one has counted beyond 32 bits."""
    cpu, smp = what.split()
    directory = work.place("bare")
    kernel = bare_guest.build(work, "COUNT", "counters.c")
    output, _ = work.record(directory, "--checkpoint-interval", "0.3", "--digest-interval", "10000",
                            *bare_guest.command(BIN, cpu, int(smp), kernel, pmu="on"))
    bare_guest.check_console(output.decode(), ["counters", "two" if smp == "2" else "one"])
    check_checkpoints(directory, output, 3)
    check_replay(directory, output, "--", "-accel", "tcg,thread=multi,one-insn-per-tb=on")


@test_each(["on", "off"])
def a_filter_that_has_two_names_replays(pmu):
    """The registers that are older than the PMU's version 3 are there without a PMU, too."""
    directory = work.place("filter")
    kernel = bare_guest.build(work, "FILTER", "counters.c")
    output, _ = work.record(directory, *bare_guest.command(BIN, "cortex-a72", 1, kernel, pmu=pmu))
    bare_guest.check_console(output.decode(), ["filter"])
    check_replay(directory, output)


@test_each([1, 4])
def linux_counts_and_samples(smp):
    directory = work.place("linux")
    command = [PMU if word == NO_PMU else word
               for word in stock_command(f"counters -t {smp} -n 10", smp)]
    output, _ = work.record(directory, "--checkpoint-interval", "1", "--", *command)
    check(b"counts=cycles" in output and b"reprise: end status=0" in output, output)
    check_checkpoints(directory, output, 2)


@test
def a_guest_that_counts_already_is_recorded():
    """The recording starts while counters run, and ends while they do."""
    directory = work.place("live")
    with live_guest(work, "while :; do counters -t 2 -n 1; done", cpu=PMU) as guest:
        qmp = guest.connect()
        work.console.wait_for(b"counts=cycles", guest.process)
        before = len(work.console.read())
        answer = qmp("recorder-start", directory=directory)
        check(answer == {"return": {}}, answer)
        for length in (before + 500, before + 1000):
            while b"counts=cycles" not in work.console.read()[length:]:
                time.sleep(0.01)
                qmp("query-status")
            check("return" in qmp("recorder-checkpoint"), "recorder-checkpoint")
        check(qmp("recorder-stop", pause=True) == {"return": {}}, "recorder-stop")
        output = work.console.read()
        qmp.close()
    check_checkpoints(directory, output, 3)


main(work)
