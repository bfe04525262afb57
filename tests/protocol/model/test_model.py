# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol by which lines pass between processors: its random tester, and its models.

Each rule of the protocol is also broken once, and that must be noticed: a test that
cannot fail tells nothing.
"""

import os
import re
import shutil
import subprocess

from tests.lib.checkout import BUILD
from tests.lib.process import run
from tests.lib.tap import check, main, skip, test, test_each
from tests.lib.workspace import Workspace

work = Workspace()
HERE = os.path.dirname(os.path.abspath(__file__))
TESTERS = f"{BUILD}/core/tests/protocol/model"
TESTER = f"{TESTERS}/sphere-tester"
# Under ThreadSanitizer a process needs its usual addresses.
TSAN = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"}


def seeds_of(output):
    return int(re.search(r"^(\d+) seeds", output, re.M).group(1))


def try_seeds(tester, *options, seconds, most, least, env=None):
    """Return what it says of up to @most seeds in some seconds, or of @least on a busy host."""
    said = run(tester, *options, "--seeds", str(most), "--seconds", str(seconds), env=env).stdout
    if seeds_of(said) < least:
        said = run(tester, *options, "--seeds", str(least), env=env).stdout
    check(seeds_of(said) >= least, f"too few seeds to tell anything: {said}")
    return said


@test
def logs_of_random_guests_order_all_they_do():
    done = try_seeds(TESTER, seconds=15, most=30000, least=300)
    check(re.search(r" [1-9]\d* leases, [1-9]\d* ended early, [1-9]\d* gave way$", done, re.M),
          done)
    check(re.search(r"^Karma: [1-9]\d* episodes, [1-9]\d* edges, [1-9]\d* relays, "
                    r"[1-9]\d* counted again; Rerun: [1-9]\d* episodes$", done, re.M), done)
    check(re.search(r"^x86: [1-9]\d* interrupts, [1-9]\d* exceptions, [1-9]\d* nested, "
                    r"[1-9]\d* deliveries abandoned, [1-9]\d* exclusive, "
                    r"[1-9]\d* entries to the kernel, [1-9]\d* maps$", done, re.M), done)


@test
def so_do_logs_of_some_orders():
    """The steps that one order demands would hide that another one does not."""
    try_seeds(TESTER, "--order", "any", seconds=10, most=20000, least=200)


def rules():
    if not os.path.exists(TESTER):
        return []
    listed = subprocess.run([TESTER, "--rules"], stdout=subprocess.PIPE, encoding="utf-8").stdout
    return [line.split("\t")[0] for line in listed.splitlines()]


@test_each(rules())
def the_tester_notices_a_broken_rule(rule):
    run(TESTER, "--break", rule, "--seeds", "40000", "--seconds", "100")


# What each order must notice by itself, however little it orders too much.
ALONE = ["ORDERED", "TAKE_ARC", "WRITER_ARC", "PASS_ARCS", "RESERVE", "USER_ARC", "DEPOSIT",
         "MAP_AFTER_ALL", "MAP_BEFORE_ALL"]


@test_each(f"{order}-{rule}" for order in ("fdr", "karma", "rerun") for rule in ALONE)
def an_order_alone_notices_a_broken_rule(case):
    order, rule = case.split("-")
    run(TESTER, "--order", order, "--break", rule, "--seeds", "40000", "--seconds", "100")


@test
def real_threads():
    try_seeds(f"{TESTERS}/sphere-tester-threads", "--order", "any", seconds=10, most=4000,
              least=50)


@test
def real_threads_under_thread_sanitizer():
    tester = f"{TESTERS}/sphere-tester-tsan"
    if not os.path.exists(tester):
        skip("the compiler has no ThreadSanitizer")
    try_seeds(tester, "--order", "any", seconds=30, most=400, least=20, env=TSAN)


# --- models -------------------------------------------------------------------

# name: (file, -D, for a liveness property)
MODELS = {
    "two-vcpus": ("ownership.pml", ["CLOCKS", "N=2", "INSNS=2", "BIG_LOCK"], False),
    "offers": ("ownership.pml", ["CLOCKS", "N=2", "INSNS=2", "OFFERS"], False),
    "offers-of-three": ("ownership.pml", ["CLOCKS", "N=3", "LINES=1", "OTHERS=1", "OFFERS"], False),
    "three-vcpus": ("ownership.pml", ["CLOCKS", "N=3", "INSNS=1"], False),
    "user-mode": ("ownership.pml", ["CLOCKS", "N=2", "INSNS=2", "USER"], False),
    "memory-map": ("ownership.pml", ["CLOCKS", "N=3", "INSNS=1", "LINES=1", "MAP"], False),
    "dma": ("ownership.pml", ["CLOCKS", "DMA", "N=3", "INSNS=1", "FEW_TRIES=1"], False),
    "every-request-is-granted": ("ownership.pml", ["N=3", "LINES=1"], True),
    "translations": ("copies.pml", ["CLOCKS", "USERS=1", "WRITERS=1"], False),
    "own-translations": ("copies.pml", ["CLOCKS", "USERS=1", "STEPS=4", "STORES=1"], False),
    "shared-translations": ("copies.pml", ["CLOCKS", "N=3", "USERS=2", "WRITERS=2", "STORES=1"],
                            False),
    "put-aside": ("copies.pml", ["CLOCKS", "USERS=1", "WRITERS=1", "ASIDE"], False),
    "own-put-aside": ("copies.pml", ["CLOCKS", "USERS=1", "STEPS=4", "STORES=1", "ASIDE"], False),
    "translations-offered": ("copies.pml",
                                ["CLOCKS", "USERS=1", "WRITERS=1", "OFFERS"], False),
    "own-translations-offered": (
        "copies.pml", ["CLOCKS", "USERS=1", "STEPS=4", "STORES=1", "OFFERS"], False),
    "code-offered": ("copies.pml", ["CLOCKS", "USERS=1", "WRITERS=1", "CODE", "OFFERS"],
                        False),
    "code": ("copies.pml", ["CLOCKS", "USERS=1", "WRITERS=1", "CODE"], False),
    "episodes": ("episodes.pml", ["N=2", "INSNS=3", "OTHERS=2", "ABANDON", "BLOCKS", "TICKS=1",
                                  "OFFERS"], False),
    "episodes-of-three": ("episodes.pml", ["N=3", "INSNS=2", "OTHERS=1", "ABANDON", "FEW_STEPS",
                                           "OFFERS", "FLUSHES=1"], False),
    "episodes-and-passed-waiters": (
        "episodes.pml", ["N=3", "INSNS=3", "OTHERS=1", "LINES=2", "FEW_KINDS", "PASS"], False),
    "episodes-and-mid-steps": ("episodes.pml", ["N=3", "INSNS=2", "OTHERS=1", "LINES=2",
                                                "FEW_KINDS", "TWO", "LINGER", "FEW_STEPS"], False),
    "episodes-and-user-mode": ("episodes.pml", ["N=3", "INSNS=2", "OTHERS=1", "LINES=2",
                                                "FEW_KINDS", "USER", "VECTOR"], False),
    "episodes-and-vectors": ("episodes.pml", ["N=3", "INSNS=2", "OTHERS=1", "ABANDON", "TICKS=1",
                                              "FLUSHES=1", "VECTOR"], False),
    "episodes-and-a-cut": ("episodes.pml", ["N=2", "INSNS=2", "LINES=2", "FEW_KINDS", "ABANDON",
                                            "FLUSHES=1", "CUT"], False),
    "every-store-is-made": ("copies.pml", ["USERS=1", "WRITERS=1"], True),
    "every-store-is-made-though-offered": (
        "copies.pml", ["USERS=1", "WRITERS=1", "OFFERS"], True),
}

# Those that spin takes longest for.  What they forbid is broken in `make check` all the same.
LONG_MODELS = ["user-mode", "dma", "memory-map", "every-request-is-granted", "three-vcpus",
               "offers", "offers-of-three", "own-translations-offered"]

# What is broken: a model that must show it.
BROKEN = {
    "NOP": "three-vcpus",
    "TAKE_ARC": "two-vcpus",
    "WRITER_ARC": "three-vcpus",
    "TAKE_RUNNING": "two-vcpus",
    "SERVE": "two-vcpus",
    "WANT_FIRST": "two-vcpus",
    "EXCLUSIVE": "three-vcpus",
    "OFFER_ARC": "offers",
    "OFFER_RETURNS": "offers",
    "WAITER_KEEPS": "three-vcpus",
    "USER_ARC": "user-mode",
    "OPEN": "user-mode",
    "LEAVE_USER": "user-mode",
    "MAP_AFTER_ALL": "memory-map",
    "MAP_BEFORE_ALL": "memory-map",
    "NEXT_RESERVES": "every-request-is-granted",
    "DROP": "translations",
    "DROP_ARC": "translations",
    "TAKE_DROPS": "translations",
    "LEFT": "translations",
    "LEFT_UNSEEN": "translations",
    "WRITE_BITS": "translations",
    "IN_HAND_ENDS": "translations",
    "PROTECT": "own-translations",
    "TAKE_BACK": "put-aside",
    "OFFER_ENDS": "translations-offered",
    "RESERVE": "shared-translations",
    "IN_HAND": "every-store-is-made",
    "IN_HAND_PASSES": "every-store-is-made",
    "TIME": "episodes",
    "FROZEN": "episodes",
    "SECOND": "episodes",
    "AGAIN": "episodes",
    "LAST": "episodes",
    "PREVIOUSLY": "episodes",
    "ORDERED": "episodes-of-three",
    "RELAY": "episodes-of-three",
    "PASSED": "episodes-and-passed-waiters",
    "USER_SPLIT": "episodes-and-user-mode",
    "SNAPSHOT": "episodes-and-vectors",
    "EDGE_ORDERS": "episodes-and-a-cut",
    "BARRIER": "episodes-and-a-cut",
}


def number_of(rule):
    model = MODELS[BROKEN[rule]][0]
    with open(f"{HERE}/{model if model == 'episodes.pml' else 'sphere.pml'}",
              encoding="utf-8") as file:
        return re.search(rf"^#define RULE_{rule} (\d+)", file.read(), re.M).group(1)


@work.shared
def verifier(name):
    """A folder with a compiled model: that takes longer than most runs."""
    if not shutil.which("spin"):
        skip("spin is not installed")
    model, defines, live = MODELS[name]
    folder = work.path(name)
    os.mkdir(folder)
    run("spin", "-a", *(f"-D{d}" for d in defines), f"{HERE}/{model}", cwd=folder)
    run("cc", "-O1", "-w", "-DCOLLAPSE", "-DMEMLIM=2000", "-DVECTORSZ=2048",
        "-DNFAIR=4" if live else "-DSAFETY", "-o", "pan", "pan.c", cwd=folder)
    return folder


def verify(name, broken=None):
    """What spin found wrong with a model, and how many states it saw."""
    found = run("./pan", "-m200000", *(["-a", "-f"] if MODELS[name][2] else []),
                cwd=verifier(name), env={**os.environ,
                                         "BROKEN": number_of(broken) if broken else ""},
                timeout=300).stdout
    check("Search not completed" not in found or "errors: 1" in found, found)
    errors = int(re.search(r"errors: (\d+)", found).group(1))
    return errors, int(re.search(r"(\d+) states, stored", found).group(1)), found


@test_each([name for name in MODELS if name not in LONG_MODELS], long=LONG_MODELS)
def a_model_holds(name):
    errors, states, found = verify(name)
    check(errors == 0, found)
    check(states > 1000, f"only {states} states: what was checked?")


@test_each(BROKEN)
def spin_notices_a_broken_rule(rule):
    errors, _, found = verify(BROKEN[rule], rule)
    check(errors > 0, f"nothing is wrong without {rule}?\n{found}")


main(work)
