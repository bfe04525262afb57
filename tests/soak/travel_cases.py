# SPDX-License-Identifier: GPL-2.0-or-later
"""Time travel, as cases of the soak, all in recordings of boot, forkstorm and locks.

    travel-01 ... 10    a hundred random excursions each; what was seen is what a plain replay has
    travel-karma-01 ... 03      the same, in a recording in Karma's order
    travel-x86-01 ... 03        the same, of an x86_64 guest
    travel-session      a session with many stops, which comes to the end that was recorded
    travel-speed        how long it takes to go back, and to the end

Every third of the ten has no checkpoints to begin at, only the snapshots of the session.
`python3 -m tests.lib.time_travel DIR SEED INDEX` makes an excursion that failed again.  With the
kernel's symbols (images/symbols) there are more kinds of them, and more to be measured.
"""

import atexit
import contextlib
import functools
import os
import random
import re
import shutil
import statistics
import time

from tests.lib.checksum import change_manifest
from tests.lib.debug_session import last_said
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import cleaned_up
from tests.lib.time_travel import (TRAVEL_S, Excursions, judge, met_an_end, symbols_if_any,
                                   travel)
from tests.lib.tool import info
from tests.soak.cases import Case
from tests.soak.guest import Failure, Recording, run_tool

# For sockets; it is not made just to list cases.
work = GuestWorkspace()
atexit.register(work.close)
CASES = 10
KARMA_CASES = 3
X86_CASES = 3
EXCURSIONS = 100                # of a case
INTERRUPTS = 5                  # with Ctrl-C, besides
STOPS = 50
SMP = 4
RUN = "forkstorm -t 4 -n 100 && locks -t 4 -n 560000"
CHECKPOINTS_S = "0.5"
# Architecture and order; the recordings are removed when the soak ends.
KINDS = {"arm": ("aarch64", "fdr"), "karma": ("aarch64", "karma"), "x86": ("x86_64", "fdr")}
SHARED = {kind: f"travel-shared-{kind}" for kind in KINDS}
ALONE_EVERY = 3
ALONE_JUDGED = 40               # moments: without checkpoints, a plain replay to each takes long

STEPS = 200
STEP_MEDIAN_S, STEP_WORST_S = 0.15, 1.0
WATCH_S = 3.0                   # for a store that lies a second of guest time back
TIMES = 3
END_RATIO = 1.3


# --- the recording --------------------------------------------------------------------------

@functools.lru_cache
def shared(kind):
    recording = Recording(SHARED[kind])
    recording.arch, order = KINDS[kind]
    shutil.rmtree(recording.directory, ignore_errors=True)
    recording.record(RUN, SMP, options=["--order", order, "--checkpoint-interval", CHECKPOINTS_S])
    return recording


def take_shared(recording, kind):
    """Linked, so that a failure keeps its own copy under its own name."""
    shutil.copytree(shared(kind).directory, recording.directory, copy_function=os.link)
    shutil.copy(shared(kind).path("console"), recording.path("console"))


@contextlib.contextmanager
def without_checkpoints(directory):
    """The same recording with nothing to begin at but its start."""
    plain = f"{directory}-plain"
    shutil.rmtree(plain, ignore_errors=True)
    shutil.copytree(directory, plain, copy_function=os.link,
                    ignore=shutil.ignore_patterns("checkpoint-[1-9]*", "manifest"))
    shutil.copy(os.path.join(directory, "manifest"), plain)
    change_manifest(plain, "names", "checkpoint-0;")
    try:
        yield plain
    finally:
        shutil.rmtree(plain)


def travelling(function, kind="arm"):
    """A case: what it checks and does not find is a failure, with what the session said."""
    def case(recording):
        take_shared(recording, kind)
        try:
            with cleaned_up():
                return function(recording)
        except (AssertionError, TimeoutError, ConnectionError) as failure:
            raise Failure(f"{failure}\nthe session said: {last_said(work)}") from None
    return case


# --- excursions --------------------------------------------------------------------------------

def excursions(seed, kind="arm"):
    def function(recording):
        vmlinux = symbols_if_any(KINDS[kind][0])
        debugged = (without_checkpoints if seed % ALONE_EVERY == 0 else contextlib.nullcontext)
        with debugged(recording.directory) as directory:
            with travel(work, directory, vmlinux=vmlinux) as session:
                made = Excursions(session, seed, kernel=bool(vmlinux))
                for _ in range(EXCURSIONS):
                    made.go()
                for _ in range(INTERRUPTS):
                    made.interrupt()
            # The order of all steps goes through the checkpoints, so it is another one without.
            judged = made.seen
            if directory != recording.directory:
                some = random.Random(seed).sample(sorted(judged), min(len(judged), ALONE_JUDGED))
                judged = {moment: judged[moment] for moment in some}
            judge(work, directory, judged)
        return f"{made.n_stops} stops, {len(judged)} moments compared"
    return travelling(function, kind)


@travelling
def session(recording):
    vmlinux = symbols_if_any()
    wanted = info(recording.directory)["end_digest"]
    with travel(work, recording.directory, vmlinux=vmlinux) as debugged:
        made = Excursions(debugged, "session", kernel=bool(vmlinux))
        while made.n_stops < STOPS - 2:
            made.go()
        made.interrupt()
        stop = debugged.gdb.go("continue", TRAVEL_S)
        if not met_an_end(stop) or debugged.moment() != debugged.last:
            raise Failure(f"after {made.n_stops} stops: {stop} at {debugged.when()}")
        seen = debugged.digests()
        if (seen["ram"], seen["vcpus"]) != (wanted["ram"], wanted["registers"]):
            raise Failure(f"after {made.n_stops} stops: {seen} at the end, recorded {wanted}")
        if debugged.qmp.named("RECORDER_DIVERGED"):
            raise Failure(f"diverged: {debugged.qmp.events}")
    return f"{made.n_stops} stops"


# --- speed ---------------------------------------------------------------------------------------

def timed(function, *arguments):
    began = time.monotonic()
    function(*arguments)
    return time.monotonic() - began


def measure_steps(debugged):
    """Seconds of each, on random threads at random moments."""
    source, found = random.Random("steps"), []
    for _ in range(STEPS):
        debugged.goto(source.randrange(debugged.first + 1, debugged.last + 1))
        debugged.gdb.command(f"thread {source.randrange(1, SMP + 1)}")
        found.append(timed(debugged.gdb.go, "reverse-stepi"))
    return found


class Jiffies:
    """Can be read while all vCPUs are in user mode, too; made while this one is in the kernel."""

    def __init__(self, gdb):
        found = re.search(r"gpa: (\w+)", gdb.command(f"monitor gva2gpa {gdb.value('&jiffies_64')}"))
        self.gdb, self.address = gdb, found.group(1)
        self.per_second = 10**9 // gdb.value("tick_nsec")

    def now(self):
        said = self.gdb.command(f"monitor xp /1gx {self.address}")
        return int(said.split(":")[-1], 16)

    def find(self, debugged, wanted, low, high):
        """A moment with as many, to a tick."""
        while high - low > 1:
            middle = (low + high) // 2
            debugged.goto(middle)
            seen = self.now()
            if seen == wanted:
                return middle
            low, high = (middle, high) if seen < wanted else (low, middle)
        raise Failure(f"no moment has jiffies {wanted}")


def find_store(debugged):
    """One to total_forks, and a moment one second of guest time later.

    When all threads of `locks` have begun, nobody forks for longer than that.
    """
    gdb, jiffies = debugged.gdb, None
    debugged.goto("end")
    high = debugged.moment()
    gdb.command("watch total_forks")
    while not met_an_end(gdb.go("reverse-continue", TRAVEL_S)):
        low, jiffies = debugged.moment(), jiffies or Jiffies(gdb)
        began = jiffies.now()
        debugged.goto(high)
        if jiffies.now() - began > jiffies.per_second:
            gdb.command("delete")
            return low, jiffies.find(debugged, began + jiffies.per_second, low, high)
        debugged.goto(low)
        high = low
    raise Failure("there is no second without a fork")


def measure_watch(directory, vmlinux):
    """Seconds from a moment that was just gone to, in new sessions."""
    found = []
    with travel(work, directory, vmlinux=vmlinux) as debugged:
        store, later = find_store(debugged)
    for _ in range(TIMES):
        with travel(work, directory, "--at", str(later), vmlinux=vmlinux) as debugged:
            debugged.gdb.command("watch total_forks")
            found.append(timed(debugged.gdb.go, "reverse-continue"))
            if debugged.moment() != store:
                raise Failure(f"the store at {store} was met at {debugged.when()}")
    return statistics.median(found)


def measure_ends(recording):
    """Seconds of plain replays, and of going from the start to the end."""
    plain, gone = [], []
    for _ in range(TIMES):
        plain.append(timed(run_tool, ["replay", recording.directory], recording.path("replayed"),
                           recording.path("log"), recording.patience))
        with travel(work, recording.directory) as debugged:
            gone.append(timed(debugged.gdb.command, "monitor goto end", TRAVEL_S))
    return plain, gone


@travelling
def speed(recording):
    vmlinux = symbols_if_any()
    plain, gone = map(statistics.median, measure_ends(recording))
    bars = [(f"goto end ({gone:.1f} s) to plain replay ({plain:.1f} s)", gone / plain, END_RATIO)]
    with travel(work, recording.directory, vmlinux=vmlinux) as debugged:
        steps = measure_steps(debugged)
    bars += [("reverse-stepi, median", statistics.median(steps), STEP_MEDIAN_S),
             ("reverse-stepi, worst", max(steps), STEP_WORST_S)]
    if vmlinux:
        with without_checkpoints(recording.directory) as alone:
            bars += [(f"reverse-continue to a store 1 s ago{how}",
                      measure_watch(directory, vmlinux), WATCH_S)
                     for how, directory in (("", recording.directory),
                                            (", without checkpoints", alone))]
    told = "; ".join(f"{what}: {seen:.3f}, at most {most}" for what, seen, most in bars)
    if any(seen > most for _, seen, most in bars):
        raise Failure(told)
    print(told, end=" ... ", flush=True)
    return told


def travel_cases():
    cases = [Case(f"travel-{i:02}", excursions(i), False) for i in range(1, CASES + 1)]
    cases += [Case(f"travel-karma-{i:02}", excursions(i, "karma"), False)
              for i in range(1, KARMA_CASES + 1)]
    cases += [Case(f"travel-x86-{i:02}", excursions(i, "x86"), False)
              for i in range(1, X86_CASES + 1)]
    return [*cases, Case("travel-session", session, False), Case("travel-speed", speed, False)]
