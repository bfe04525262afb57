# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot both guests on 4 vCPUs, one host thread each, and run the guest programs."""

import functools
import glob
import os
import re
import resource

from tests.lib.checkout import TOP
from tests.lib.process import run
from tests.lib.tap import check, main, test_each
from tests.lib.tool import built_arches

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = sorted(os.path.basename(f)[:-2] for f in glob.glob(f"{HERE}/*.c")
                  if not f.endswith("/guest.c"))
VCPUS = 4
# CPU time from starting QEMU until the guest is off: the same on a host that has more to do.
READY_WITHIN_CPU_S = 15


def boot(arch, command, *arguments, status=0):
    return run(f"{TOP}/images/boot", "--arch", arch, "--smp", str(VCPUS), "--timeout", "240",
               "--run", command, "--", *arguments, status=status, timeout=300).stdout


def cpu_seconds():
    """Return the CPU time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def result_line(console, program):
    lines = re.findall(rf"^{program}: (.* elapsed=\d+\.\d{{3}}s)$", console, re.M)
    check(len(lines) == 1, f"{program} printed {len(lines)} result lines:\n{console[-2000:]}")
    return dict(word.split("=", 1) for word in lines[0].split())


@test_each(built_arches())
def guest_is_up_in_time(arch):
    before = cpu_seconds()
    console = boot(arch, "nproc")
    took = cpu_seconds() - before
    check(f"reprise: begin nproc\n{VCPUS}\nreprise: end status=0" in console, console)
    check(took < READY_WITHIN_CPU_S, f"took {took:.1f} s of CPU time")
    print(f"# {arch}: {took:.1f} s of CPU time from start to power-off")


@functools.lru_cache
def long_run(arch):
    """One boot for all: each program, ten times racey, one short private, a status."""
    commands = [f"{program} || exit 1" for program in PROGRAMS]
    commands += ["echo ten runs",
                 "for i in 1 2 3 4 5 6 7 8 9 10; do racey -n 1000000 || exit 1; done",
                 "echo short run", f"private -t {VCPUS} -n 1", "echo \"it's\" 'a \"test\"'",
                 "exit 7"]
    return boot(arch, "; ".join(commands), status=7)


@test_each(f"{arch} {program}" for arch in built_arches() for program in PROGRAMS)
def program_passes_its_own_check(what):
    arch, program = what.split()
    result = result_line(long_run(arch).split("\nten runs\n")[0], program)
    check(int(result["threads"]) == VCPUS, f"{result}")


@test_each(built_arches())
def racey_races(arch):
    """Of ten runs at least nine differ, or there is nothing to record."""
    console = long_run(arch).split("\nten runs\n")[1].split("\nshort run\n")[0]
    signatures = re.findall(r"^racey: signature=([0-9a-f]{16}) ", console, re.M)
    check(len(signatures) == 10, console[-2000:])
    check(len(set(signatures)) >= 9,
          f"{len(set(signatures))} of 10 signatures differ: {signatures}")


@test_each(built_arches())
def programs_run_with_tlbs_that_grow(arch):
    console = boot(arch, "private -n 2 && remap -n 20 && forkstorm -n 5",
                   "-accel", "tcg,thread=multi,x-tlb-grow=on")
    for program in ("private", "remap", "forkstorm"):
        result_line(console, program)


@test_each(built_arches())
def private_is_deterministic(arch):
    """The guest computes what the same program computes on the host."""
    guest = result_line(long_run(arch).split("\nshort run\n")[1], "private")
    host = result_line(run(f"{TOP}/build/images/stock/{os.uname().machine}/programs/private",
                           "-t", str(VCPUS), "-n", "1").stdout, "private")
    check(guest["digest"] == host["digest"], f"guest {guest}, host {host}")


@test_each(built_arches())
def quotes_reach_the_guest(arch):
    check('it\'s a "test"' in long_run(arch), "the command's quotes were lost")


main()
