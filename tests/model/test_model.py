# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol by which lines pass between processors: its random tester, and its models.

Each rule of the protocol is also broken once, and that must be noticed: a test that
cannot fail tells nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from harness import BUILD, check, main, run, skip, test, test_each

HERE = os.path.dirname(os.path.abspath(__file__))
TESTERS = f"{BUILD}/core/tests/model"
TESTER = f"{TESTERS}/sphere-tester"
# Under ThreadSanitizer a process needs its usual addresses.
TSAN = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"}


def seeds_of(output):
    return int(re.search(r"^(\d+) seeds", output, re.M).group(1))


@test
def logs_of_random_guests_order_all_they_do():
    done = run(TESTER, "--seeds", "30000", "--seconds", "40").stdout
    check(seeds_of(done) >= 1000, f"too few seeds to tell anything: {done}")


def rules():
    if not os.path.exists(TESTER):
        return []
    listed = subprocess.run([TESTER, "--rules"], stdout=subprocess.PIPE, encoding="utf-8").stdout
    return [line.split("\t")[0] for line in listed.splitlines()]


@test_each(rules())
def the_tester_notices_a_broken_rule(rule):
    run(TESTER, "--break", rule, "--seeds", "40000", "--seconds", "200")


@test
def real_threads():
    done = run(f"{TESTERS}/sphere-tester-threads", "--seeds", "4000", "--seconds", "20").stdout
    check(seeds_of(done) >= 50, f"too few seeds to tell anything: {done}")


@test
def real_threads_under_thread_sanitizer():
    tester = f"{TESTERS}/sphere-tester-tsan"
    if not os.path.exists(tester):
        skip("the compiler has no ThreadSanitizer")
    done = run(tester, "--seeds", "2000", "--seconds", "25", env=TSAN)
    check(seeds_of(done.stdout) >= 20, f"too few seeds to tell anything: {done.stdout}")


# --- models -------------------------------------------------------------------

# name: (file, -D, for a liveness property)
MODELS = {
    "two-vcpus": ("ownership.pml", ["CLOCKS", "N=2", "INSNS=2", "BIG_LOCK"], False),
    "three-vcpus": ("ownership.pml", ["CLOCKS", "N=3", "INSNS=1"], False),
    "dma": ("ownership.pml", ["CLOCKS", "DMA", "N=3", "INSNS=1", "FEW_TRIES=1"], False),
    "every-request-is-granted": ("ownership.pml", ["N=3", "LINES=1"], True),
}

# What is broken: a model that must show it.
BROKEN = {
    "NOP": "three-vcpus",
    "TAKE_ARC": "two-vcpus",
    "WRITER_ARC": "three-vcpus",
    "TAKE_RUNNING": "two-vcpus",
    "SERVE": "two-vcpus",
    "WANT_FIRST": "two-vcpus",
    "EXCLUSIVE": "three-vcpus",
    "NEXT_RESERVES": "every-request-is-granted",
}


def verify(name, *broken):
    """What spin found wrong with a model, and how many states it saw."""
    if not shutil.which("spin"):
        skip("spin is not installed")
    model, defines, live = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        run("spin", "-a", *(f"-D{d}" for d in defines), *(f"-DBREAK_{b}" for b in broken),
            f"{HERE}/{model}", cwd=folder)
        run("cc", "-O2", "-w", "-DCOLLAPSE", "-DMEMLIM=4096", "-DVECTORSZ=2048",
            "-DNFAIR=4" if live else "-DSAFETY", "-o", "pan", "pan.c", cwd=folder)
        found = run("./pan", "-m200000", *(["-a", "-f"] if live else []), cwd=folder,
                    timeout=900).stdout
    check("Search not completed" not in found or "errors: 1" in found, found)
    errors = int(re.search(r"errors: (\d+)", found).group(1))
    return errors, int(re.search(r"(\d+) states, stored", found).group(1)), found


@test_each(MODELS)
def a_model_holds(name):
    errors, states, found = verify(name)
    check(errors == 0, found)
    check(states > 1000, f"only {states} states: what was checked?")


@test_each(BROKEN)
def spin_notices_a_broken_rule(rule):
    errors, _, found = verify(BROKEN[rule], rule)
    check(errors > 0, f"nothing is wrong without {rule}?\n{found}")


main()
