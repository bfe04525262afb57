# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot both guests on 4 vCPUs, one host thread each, and run the guest programs."""

import glob
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from harness import TOP, built_arches, check, main, run, test_each

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = sorted(os.path.basename(f)[:-2] for f in glob.glob(f"{HERE}/*.c") if not f.endswith("/guest.c"))
VCPUS = 4
# From starting QEMU until userspace is up, on a host that does nothing else.
READY_WITHIN_S = 10


def boot(arch, command, status=0):
    return run(f"{TOP}/images/boot", "--arch", arch, "--smp", str(VCPUS), "--timeout", "240",
               "--run", command, status=status, timeout=300).stdout


def result_line(console, program):
    lines = re.findall(rf"^{program}: (.* elapsed=\d+\.\d{{3}}s)$", console, re.M)
    check(len(lines) == 1, f"{program} printed {len(lines)} result lines:\n{console[-2000:]}")
    return dict(word.split("=", 1) for word in lines[0].split())


@test_each(built_arches())
def guest_is_up_in_time(arch):
    started = time.monotonic()
    console = boot(arch, "nproc")
    took = time.monotonic() - started
    check(f"reprise: begin nproc\n{VCPUS}\nreprise: end status=0" in console, console)
    check(took < READY_WITHIN_S, f"took {took:.1f} s")
    print(f"# {arch}: {took:.1f} s from start to power-off")


@test_each(f"{arch} {program}" for arch in built_arches() for program in PROGRAMS)
def program_passes_its_own_check(what):
    arch, program = what.split()
    result = result_line(boot(arch, program), program)
    check(int(result["threads"]) == VCPUS, f"{result}")


@test_each(built_arches())
def racey_races(arch):
    """Of ten runs at least nine differ, or there is nothing to record."""
    console = boot(arch, "for i in 1 2 3 4 5 6 7 8 9 10; do racey -n 100000 || exit 1; done")
    signatures = re.findall(r"^racey: signature=([0-9a-f]{16}) ", console, re.M)
    check(len(signatures) == 10, console[-2000:])
    check(len(set(signatures)) >= 9, f"{len(set(signatures))} of 10 signatures differ: {signatures}")


@test_each(built_arches())
def private_is_deterministic(arch):
    """The guest computes what the same program computes on the host."""
    command = ["private", "-t", str(VCPUS), "-n", "1"]
    guest = result_line(boot(arch, " ".join(command)), "private")
    if arch == os.uname().machine:
        host = result_line(run(f"{TOP}/build/images/stock/{arch}/programs/private", *command[1:]).stdout,
                           "private")
    else:
        host = result_line(boot(os.uname().machine, " ".join(command)), "private")
    check(guest["digest"] == host["digest"], f"guest {guest}, host {host}")


@test_each(built_arches())
def the_command_s_status_comes_back(arch):
    console = boot(arch, "echo \"it's\" 'a \"test\"'; exit 7", status=7)
    check('it\'s a "test"' in console, console)


main()
