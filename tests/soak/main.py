# SPDX-License-Identifier: GPL-2.0-or-later
"""The long tests: hours of recordings, each replayed and compared.

    tests/soak/run                  all cases that have no result yet
    tests/soak/run stress network   those whose name has one of these words
    tests/soak/run 'smp-racey-*'    or is like this
    tests/soak/run --again stress   once more
    tests/soak/run --jobs 2 chaos   two at a time, of those that can

Ctrl-C stops it and the next start goes on: build/soak/state.json has the result
of every case that came to its end.  A case that failed stays failed until
--again, so that nothing is retried until it passes.  Results are of one build
of tool and emulator; with another one only --again starts.

A failure keeps its recording in build/soak/failed-NAME, with .log, .console,
.replayed and perhaps .ram and .ram-replayed beside it.  The last line is `N passed, N failed`.
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from tests.bench import host
from tests.lib import lock
from tests.lib.checkout import TOP
from tests.lib.tool import REPRISE
from tests.soak.cases import one_vcpu_cases
from tests.soak.chaos_cases import chaos_cases
from tests.soak.damage_cases import damage_cases
from tests.soak.epoch_cases import SHARED as SHARED_EPOCHS, epoch_cases
from tests.soak.fault_cases import fault_cases
from tests.soak.fuzz_cases import fuzz_cases
from tests.soak.guest import PLACE, PROGRAMS, Failure, Recording
from tests.soak.long_cases import long_cases
from tests.soak.model_cases import model_cases
from tests.soak.server_cases import server_cases
from tests.soak.smp import smp_cases
from tests.soak.travel_cases import SHARED as SHARED_TRAVEL, travel_cases

STATE = os.path.join(PLACE, "state.json")


class Stop(Exception):
    """The soak ends early, and why."""


# --- what is done -----------------------------------------------------------------------

def build_id():
    """Changes with the tool and the emulator."""
    digest = hashlib.sha256()
    for path in PROGRAMS:
        try:
            with open(path, "rb") as file:
                digest.update(file.read())
        except FileNotFoundError:
            raise Stop(f"no {path}: run make first") from None
    return digest.hexdigest()[:16]


class State:
    """Results by case, kept on disk after each one."""

    def __init__(self):
        self.build, self.results = None, {}
        if os.path.exists(STATE):
            with open(STATE) as file:
                kept = json.load(file)
            self.build, self.results = kept["build"], kept["results"]

    def forget(self, names, build):
        """Results of another build go, all of them."""
        if self.build != build:
            self.build, self.results = build, {}
        for name in names:
            self.results.pop(name, None)
            remove(f"failed-{name}")
        self.save()

    def add(self, name, seconds, failure, note):
        result = {"result": "failed" if failure else "passed", "seconds": round(seconds, 1),
                  "why": failure, "note": note}
        self.results[name] = {key: value for key, value in result.items() if value is not None}
        self.save()

    def notes(self):
        return {name: result["note"] for name, result in self.results.items() if "note" in result}

    def save(self):
        with open(STATE + ".new", "w") as file:
            json.dump({"build": self.build, "results": self.results}, file, indent=2)
            file.write("\n")
        os.replace(STATE + ".new", STATE)


# --- running ----------------------------------------------------------------------------

def remove(name):
    """A recording and the files beside it."""
    recording = Recording(name)
    shutil.rmtree(recording.directory, ignore_errors=True)
    for path in recording.files:
        if os.path.exists(path):
            os.unlink(path)


def keep(name):
    """Returns the command that replays it."""
    remove(f"failed-{name}")
    old, new = Recording(name), Recording(f"failed-{name}")
    for source, target in zip([old.directory, *old.files], [new.directory, *new.files]):
        if os.path.exists(source):
            os.rename(source, target)
    return f"{os.path.relpath(REPRISE, TOP)} replay {os.path.relpath(new.directory, TOP)}"


def try_again(name):
    """A second replay of one that failed: does it fail in the same way?"""
    try:
        Recording(f"failed-{name}").replay()
        return "replayed again: identical"
    except (Failure, OSError) as failure:
        return f"replayed again: {failure}"


def run_case(case, notes):
    """Seconds, what failed or None, and a note."""
    remove(case.name)
    started = time.monotonic()
    failure = note = None
    try:
        note = case.function(Recording(case.name, notes=notes))
    except (Failure, subprocess.CalledProcessError) as error:
        failure = str(error)
    seconds = time.monotonic() - started
    print(f"{case.name} ... {'FAILED' if failure else 'passed'} ({seconds:.1f} s)", flush=True)
    if failure:
        command = keep(case.name)
        again = try_again(case.name) if failure.startswith("replay") else ""
        failure = "\n".join(line for line in (failure, again) if line)
        failure = failure.replace(Recording(case.name).directory,
                                  Recording(f"failed-{case.name}").directory)
        print(f"{failure}\n   replay it: {command}", flush=True)
    remove(case.name)
    return seconds, failure, note


def check_build(state):
    if build_id() != state.build:
        raise Stop("tool or emulator changed: results of two builds are not mixed")


def run_together(cases, state, jobs):
    """After Ctrl-C, those that have begun come to their ends."""
    def one(case):
        check_build(state)
        return case, run_case(case, {})

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        running = [pool.submit(one, case) for case in cases]
        try:
            for done in concurrent.futures.as_completed(running):
                case, result = done.result()
                state.add(case.name, *result)
        finally:
            pool.shutdown(cancel_futures=True)


def run_cases(cases, state, jobs):
    left = [case for case in cases if case.name not in state.results]
    try:
        for case in left:
            if jobs == 1 or not case.together:
                check_build(state)
                with host.crowded("busy" if case.busy else None):
                    state.add(case.name, *run_case(case, state.notes()))
        run_together([case for case in left if case.name not in state.results], state, jobs)
    finally:
        for name in ("variants", *SHARED_TRAVEL.values(), *SHARED_EPOCHS):
            remove(name)


# --- the command line -------------------------------------------------------------------

def is_meant(name, word):
    return fnmatch.fnmatchcase(name, word) if "*" in word else word in name


def all_cases():
    return (one_vcpu_cases() + smp_cases() + damage_cases() + fault_cases() + travel_cases() +
            epoch_cases() + fuzz_cases() + model_cases() + chaos_cases() + server_cases() +
            long_cases())


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tests/soak/run",
                                     description="Long record-and-replay tests; Ctrl-C stops, "
                                                 "the next start goes on.")
    parser.add_argument("words", nargs="*", metavar="WORD",
                        help="cases whose name has one of these words, or is like this, "
                             "if it has a * (default: all)")
    parser.add_argument("--list", action="store_true", help="cases and results so far")
    parser.add_argument("--again", action="store_true", help="forget results and start over")
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
                        help="so many cases at a time, where that is possible (default: 1)")
    options = parser.parse_args()
    options.cases = [case for case in all_cases()
                     if not options.words or any(is_meant(case.name, w) for w in options.words)]
    if not options.cases:
        parser.error(f"no case has a name with {' or '.join(options.words)}")
    return options


def show(cases, state):
    for case in cases:
        result = state.results.get(case.name)
        print(f"{case.name:32}" + (f"{result['result']:8}{result['seconds']:8.1f} s" if result
                                   else "-"))


def count(cases, state):
    results = [state.results[c.name]["result"] for c in cases if c.name in state.results]
    passed, failed = results.count("passed"), results.count("failed")
    left = len(cases) - len(results)
    print(f"{passed} passed, {failed} failed" + (f", {left} not run yet" if left else ""))
    return 0 if passed and not failed and not left else 1


def soak(options):
    state = State()
    if options.list:
        show(options.cases, state)
        return 0
    only = lock.take(os.path.join(PLACE, "lock"))
    if not only:
        raise Stop("another soak is running here")
    build = build_id()
    if options.again or state.build is None:
        state.forget([case.name for case in options.cases], build)
    elif state.build != build:
        raise Stop("the results so far are of another build: start over with --again")
    try:
        run_cases(options.cases, state, max(1, options.jobs))
    except KeyboardInterrupt:
        print("\nstopped; the next start goes on", flush=True)
    return count(options.cases, state)


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    options = parse_arguments()
    os.makedirs(PLACE, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        return soak(options)
    except Stop as reason:
        print(f"tests/soak/run: {reason}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
