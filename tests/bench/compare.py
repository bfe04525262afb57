# SPDX-License-Identifier: GPL-2.0-or-later
"""Parts of parts.py: every workload in every mode, with one or two builds, side by side."""

import statistics
import subprocess
import time

from tests.bench.measure import THIS, Build, Failure, Guest, keep_recording, measure
from tests.bench.parts import PARTS, PLAIN_MODES

# Another build may not have been made with the option for the one, and the other is no build.
THIS_ALONE = ("unpatched", "plain tlb")


def chosen(workloads, options):
    """Those that --workload names, or all."""
    return [name for name in workloads if not options.workload or name in options.workload]


class Deadline:
    """Until when new runs of a part start: --minutes, or as many as are usual for it."""

    def __init__(self, name, options, usual=30):
        self.name, self.minutes = name, options.minutes or usual
        self.end = time.monotonic() + self.minutes * 60

    def is_over(self):
        if time.monotonic() <= self.end:
            return False
        print(f"{self.name}: {self.minutes:g} minutes are over", flush=True)
        return True


def modes_of(part, workload, unpatched):
    if "modes" in part:
        return part["modes"]
    modes = ["plain", "plain tlb", "record"]
    if unpatched and part["smp"] == 1 and "arch" not in part:
        modes.insert(0, "unpatched")
    if workload in part["replayed"]:
        modes.append("replay")
        if part["smp"] > 1 and can_replay_in_one_thread():
            modes.append("single")
    return modes


def guest_of(part, workload):
    return Guest(part["smp"], part["workloads"][workload], arch=part.get("arch", "aarch64"))


def can_replay_in_one_thread():
    done = subprocess.run([THIS.reprise, "replay", "--help"], stdout=subprocess.PIPE, check=True)
    return b"--threads" in done.stdout


class Times:
    """What was measured of a part."""

    def __init__(self):
        self.seconds = {}               # {workload: {mode: [seconds]}}
        self.cpu = {}                   # the same, of processor time
        self.race_log, self.memory, self.failures = [], [], []

    def add(self, workload, mode, took):
        for name, key in (("boot", "boot"), (workload, "run")):
            self.seconds.setdefault(name, {}).setdefault(mode, []).append(took[key])
            if took[f"{key} cpu"] is not None:
                self.cpu.setdefault(name, {}).setdefault(mode, []).append(took[f"{key} cpu"])
        # Its recording has boot in it, as every one.
        if mode == "record" and workload == "forkstorm":
            self.race_log.append(took["race_log"])
        if mode == "record" and took.get("memory"):
            self.memory.append(took["memory"])

    @staticmethod
    def ratio(seconds, workload, mode, base):
        """The median of the rounds' ratios, for a host may be slower in one round than
        in the next; or of medians, if rounds do not match.  None if one was not measured."""
        above, below = (seconds.get(workload, {}).get(m) for m in (mode, base))
        if not above or not below or not all(below):
            return None
        if len(above) == len(below):
            return round(statistics.median(a / b for a, b in zip(above, below)), 4)
        return round(statistics.median(above) / statistics.median(below), 4)


class Comparison:
    """The times of this build, and perhaps those of another one."""

    def __init__(self, against):
        self.builds = [THIS, Build("other", against)] if against else [THIS]
        self.times = {build.name: Times() for build in self.builds}

    def measure(self, name, workload, label, options):
        """All modes of it, one after the other, with each build."""
        part, line = PARTS[name], []
        for mode in modes_of(part, workload, options.unpatched):
            for build in self.builds if mode not in THIS_ALONE else [THIS]:
                times = self.times[build.name]
                try:
                    took = measure(build, mode, guest_of(part, workload), options.unpatched,
                                   options.patience)
                except Failure as failure:
                    kept = None if mode in PLAIN_MODES else keep_recording(
                        build, f"{name}-{workload}-{len(times.failures)}")
                    times.failures.append(f"{failure}\nthe recording: {kept}")
                    print(f"{label}: FAILED: {times.failures[-1]}", flush=True)
                    return              # what follows would need its recording
                times.add(workload, mode, took)
                line.append(f"{mode if build is THIS else 'other'} "
                            f"{took['boot']:.2f}+{took['run']:.2f}")
        print(f"{label}: {', '.join(line)} s", flush=True)

    def against(self):
        """{workload: {mode: how many times as long as with the other build}}, and of its CPU time.

        Medians of pairs of runs: they were made side by side.
        """
        if "other" not in self.times:
            return None
        this, other = self.times["this"], self.times["other"]

        def ratios(mine, theirs):
            both = {"this": mine, "other": theirs}
            return Times.ratio({"": both}, "", "this", "other")

        return {workload: {mode: [ratios(seconds, other.seconds[workload].get(mode)),
                                  ratios(this.cpu[workload][mode], other.cpu[workload].get(mode))]
                           for mode, seconds in modes.items() if mode not in THIS_ALONE}
                for workload, modes in this.seconds.items() if workload in other.seconds}


def measure_part(name, options):
    measured = Comparison(options.against)
    deadline = Deadline(name, options)
    for number in range(1, options.rounds + 1):
        for workload in chosen(PARTS[name]["workloads"], options):
            if deadline.is_over():
                return measured
            measured.measure(name, workload, f"{name}, round {number}, {workload}", options)
        measured.builds.reverse()       # which comes first must not matter
    return measured


