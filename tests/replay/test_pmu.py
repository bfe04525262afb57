# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests that use the performance monitor (PMU): counters, overflows, their interrupts."""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.live_guest import live_guest, record_while
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN

work = GuestWorkspace()
NO_PMU, PMU = "cortex-a72,pmu=off", "cortex-a72"


@test_each(["cortex-a72 1", "cortex-a72 2", "neoverse-n1 2", "max 1"])
def counters_of_a_bare_guest_replay(what):
    """Some checkpoints lie where the counters run, and one has counted beyond 32 bits."""
    cpu, smp = what.split()
    directory = work.place("bare")
    kernel = bare_guest.build(work, "COUNT", "counters.c")
    output, _ = work.record(directory, "--checkpoint-interval", "0.3", "--digest-interval", "10000",
                            *bare_guest.command(BIN, cpu, int(smp), kernel, pmu="on"))
    bare_guest.check_console(output.decode(), ["counters", "two" if smp == "2" else "one"])
    work.check_checkpoints(directory, output, 3)
    work.check_replay(directory, output, "--", "-accel", "tcg,thread=multi,one-insn-per-tb=on")


@test_each(["on", "off"])
def a_filter_that_has_two_names_replays(pmu):
    """The registers that are older than the PMU's version 3 are there without a PMU, too."""
    directory = work.place("filter")
    kernel = bare_guest.build(work, "FILTER", "counters.c")
    output, _ = work.record(directory, *bare_guest.command(BIN, "cortex-a72", 1, kernel, pmu=pmu))
    bare_guest.check_console(output.decode(), ["filter"])
    work.check_replay(directory, output)


@test_each([1, 4])
def linux_counts_and_samples(smp):
    directory = work.place("linux")
    command = [PMU if word == NO_PMU else word
               for word in stock_command(f"counters -t {smp} -n 10", smp)]
    output, _ = work.record(directory, "--checkpoint-interval", "1", "--", *command)
    check(b"counts=cycles" in output and b"reprise: end status=0" in output, output)
    work.check_checkpoints(directory, output, 2)


@test
def a_guest_that_counts_already_is_recorded():
    """The recording starts while counters run, and ends while they do."""
    directory = work.place("live")
    with live_guest(work, "while :; do counters -t 2 -n 1; done", cpu=PMU) as guest:
        work.console.wait_for(b"counts=cycles", guest.process)
        output = record_while(work, guest, directory, b"counts=cycles", checkpoints=2)
    work.check_checkpoints(directory, output, 3)


main(work)
