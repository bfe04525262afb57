# SPDX-License-Identifier: GPL-2.0-or-later
"""What recording and replaying cost: one guest, several ways to run it, side by side.

    tests/bench/run                 all parts
    tests/bench/run smp2 smp4       these; build/bench.json keeps the others

A part is a number of vCPUs: one, smp2, smp4; orders2, orders4: Karma's order beside
FDR's; or "pause": for how long it pauses a running guest, whose memory is full of
random data, that its recording starts (QEMU's own times of STOP and RESUME tell).
Each round runs every workload of it unpatched (if REPRISE_UNPATCHED names such a
qemu-system-aarch64), plain (our emulator, not recording), recorded and replayed, one
after the other, so that a host that slows down slows all of them.  measure.py says how
time is taken.

With --against DIR, which has the programs of another build (reprise and
qemu-system-aarch64), each run is made with them as well, just before or just after, and a
second table compares the times of the two: this / other.

A run that fails (it diverged, it hangs) is reported, its recording kept in
build/bench-failed-*, and the others go on.  --minutes ends a part early; what was
measured until then counts.

Results: a table, and build/bench.json.  Exit status: 0 all was measured (the
table says which bars hold), 1 something diverged, hung or failed.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

from tests.bench.measure import PLACE, THIS, Build, Failure, keep_recording, measure, measure_pauses
from tests.lib.checkout import BUILD, TOP
from tests.lib.tool import BIN

RESULT = os.path.join(BUILD, "bench.json")
MODES = ("unpatched", "plain", "record", "replay", "single", "record karma", "record both",
         "replay fdr", "replay karma")
RAM_BYTES = 512 << 20

# Vcpus; what runs, so that each takes 1 to 3 s unrecorded on an idle host (the time of pipes
# varies most); in which modes, besides the usual ones; and the bars: what, how, compared
# with what, how many times as long it may take.
PARTS = {
    "one": {
        "smp": 1,
        "workloads": {
            "private": "private -n 40", "faults": "faults -n 40", "forkstorm": "forkstorm -n 150",
        },
        "replayed": ("private", "faults", "forkstorm"),
        "ratios": [
            ("boot", "record", "plain", 1.3),
            ("boot", "replay", "plain", None),
            ("boot", "replay", "record", 1.0),
            ("private", "record", "plain", 1.25),
            ("private", "replay", "plain", 1.2),
            ("faults", "record", "plain", 1.25),
            ("faults", "replay", "plain", 1.2),
            ("forkstorm", "record", "plain", None),
            ("forkstorm", "replay", "plain", None),
            ("boot", "plain", "unpatched", 1.02),
            ("private", "plain", "unpatched", 1.02),
            ("forkstorm", "plain", "unpatched", 1.02),
        ],
    },
    "smp2": {
        "smp": 2,
        "workloads": {
            "private": "private -n 40", "faults": "faults -n 40", "locks": "locks -n 600000",
            "forkstorm": "forkstorm -n 120", "racey": "racey -n 40000000",
            "pipes": "pipes -n 5000",
        },
        "replayed": ("private", "faults"),
        "ratios": [
            ("private", "record", "plain", 1.3),
            ("boot", "record", "plain", 1.3),
            ("locks", "record", "plain", 1.4),
            ("forkstorm", "record", "plain", 1.5),
            ("racey", "record", "plain", 3),
            ("pipes", "record", "plain", 1.6),
            ("faults", "record", "plain", None),
            ("private", "replay", "plain", 1.25),
            ("boot", "replay", "plain", 1.4),
            ("private", "replay", "single", 1 / 1.6),
            ("faults", "replay", "plain", None),
            ("faults", "replay", "single", None),
        ],
    },
    "smp4": {
        "smp": 4,
        "workloads": {
            "private": "private -n 30", "faults": "faults -n 30", "locks": "locks -n 400000",
            "forkstorm": "forkstorm -n 80", "racey": "racey -n 20000000",
            "pipes": "pipes -n 1500",
        },
        "replayed": ("private", "faults"),
        "ratios": [
            ("private", "record", "plain", 1.5),
            ("boot", "record", "plain", 1.4),
            ("locks", "record", "plain", 1.5),
            ("forkstorm", "record", "plain", 1.7),
            ("racey", "record", "plain", 4),
            ("pipes", "record", "plain", 2),
            ("faults", "record", "plain", None),
            ("private", "replay", "plain", 1.25),
            ("boot", "replay", "plain", 1.4),
            ("private", "replay", "single", 1 / 1.6),
            ("faults", "replay", "plain", None),
            ("faults", "replay", "single", None),
        ],
    },
}

# Karma beside FDR: recorded one after the other; and one run that has both, replayed by each.
ORDER_BARS = [("record karma", "record", 1.1), ("replay karma", "replay fdr", 1.25)]
PARTS |= {
    f"orders{n}": {
        "smp": n,
        "workloads": {name: PARTS[f"smp{n}"]["workloads"][name]
                      for name in ("locks", "forkstorm", "racey", "pipes")},
        "modes": ["record", "record karma", "record both", "replay fdr", "replay karma"],
        "ratios": [(name, *bar) for name in ("boot", "locks", "forkstorm", "racey", "pipes")
                   for bar in ORDER_BARS],
    } for n in (2, 4)
}

PAUSE = "pause"                 # the other part
PAUSE_BAR_S = 1.0
LATER_BAR_S = 0.1             # with 20 MiB written
ALL = (*PARTS, PAUSE)

RACE_LOG_BARS = {2: 1.0, 4: 1.2}        # bytes per 1000 instructions, on boot + forkstorm
MEMORY_BAR = 0.10               # of the guest's RAM, per vCPU


# --- measuring ----------------------------------------------------------------------

def modes_of(part, workload, unpatched):
    if "modes" in part:
        return part["modes"]
    modes = ["plain", "record"]
    if unpatched and part["smp"] == 1:
        modes.insert(0, "unpatched")
    if workload in part["replayed"]:
        modes.append("replay")
        if part["smp"] > 1 and can_replay_in_one_thread():
            modes.append("single")
    return modes


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

    def measure(self, name, workload, label, unpatched):
        """All modes of it, one after the other, with each build."""
        part, line = PARTS[name], []
        for mode in modes_of(part, workload, unpatched):
            for build in self.builds if mode != "unpatched" else [THIS]:
                times = self.times[build.name]
                try:
                    took = measure(build, mode, part["smp"], part["workloads"][workload], unpatched)
                except Failure as failure:
                    kept = keep_recording(build, f"{name}-{workload}-{len(times.failures)}")
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
                           for mode, seconds in modes.items() if mode != "unpatched"}
                for workload, modes in this.seconds.items() if workload in other.seconds}


def measure_part(name, options):
    measured = Comparison(options.against)
    deadline = time.monotonic() + options.minutes * 60
    for number in range(1, options.rounds + 1):
        for workload in PARTS[name]["workloads"]:
            if time.monotonic() > deadline:
                print(f"{name}: {options.minutes:g} minutes are over", flush=True)
                return measured
            measured.measure(name, workload, f"{name}, round {number}, {workload}",
                             options.unpatched)
        measured.builds.reverse()       # which comes first must not matter
    return measured


def measure_pause_part(options):
    pauses, failures = [], []
    try:
        pauses = measure_pauses(options.rounds)
    except (Failure, AssertionError, OSError) as failure:
        failures = [f"{PAUSE}: {failure}"]
    return {"start": pause_result([start for start, _ in pauses], PAUSE_BAR_S),
            "later": pause_result([pause for _, (pause, _) in pauses], LATER_BAR_S),
            "later_mib": [mib for _, (_, mib) in pauses], "failures": failures}


def pause_result(seconds, bar):
    median = statistics.median(seconds) if seconds else None
    return {"seconds": seconds, "median": median, "bar": bar, "met": median and median <= bar}


# --- results ------------------------------------------------------------------------

def ratios_of(part, times):
    """With the bar and whether it holds (None: no bar, or not measured)."""
    results = []
    for workload, mode, base, bar in part["ratios"]:
        ratio = times.ratio(times.seconds, workload, mode, base)
        if base == "unpatched" and ratio is None:
            continue
        # A bar of exactly 1 means "faster", the others "at most".
        met = None if bar is None or ratio is None else ratio < bar if bar == 1 else ratio <= bar
        results.append({"workload": workload, "mode": mode, "base": base, "bar": bar, "met": met,
                        "ratio": ratio, "cpu": times.ratio(times.cpu, workload, mode, base)})
    return results


def result_of(name, measured, load):
    part, times = PARTS[name], measured.times["this"]
    race_log = statistics.median(times.race_log) if times.race_log else None
    memory = max(times.memory, default=None)
    share = memory and memory / RAM_BYTES / part["smp"]
    several = part["smp"] > 1
    return {
        "vcpus": part["smp"], "workloads": part["workloads"], "load_average": load,
        "seconds": times.seconds, "cpu_seconds": times.cpu, "ratios": ratios_of(part, times),
        "race_log": {"bytes_per_1000": race_log, "bar": RACE_LOG_BARS[part["smp"]],
                     "met": race_log and race_log <= RACE_LOG_BARS[part["smp"]]}
        if several else None,
        "memory": {"bytes": memory, "share_per_vcpu": share, "bar": MEMORY_BAR,
                   "met": share and share <= MEMORY_BAR} if several else None,
        "against": measured.against(),
        "failures": [failure for each in measured.times.values() for failure in each.failures],
    }


def table(rows):
    """Aligned: the first two columns to the left, figures to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [cell.ljust(width) if i < 2 else cell.rjust(width)
                 for i, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())


def print_times(result):
    rows = [("workload", "mode", "median s", "min", "max", "runs", "cpu s")]
    for workload, modes in result["seconds"].items():
        for mode in sorted(modes, key=MODES.index):
            seconds = modes[mode]
            rows.append((workload, mode, f"{statistics.median(seconds):.3f}",
                         f"{min(seconds):.3f}", f"{max(seconds):.3f}", str(len(seconds)),
                         f"{statistics.median(result['cpu_seconds'][workload][mode]):.2f}"))
    table(rows)


def not_measured(ratio):
    return "not built" if ratio["base"] == "single" else "-"


VERDICTS = {None: "", True: "holds", False: "MISSED"}


def print_ratios(result):
    """"cpu" is the same ratio of processor time."""
    rows = [("workload", "what / compared with", "measured", "bar", "", "cpu")]
    for r in result["ratios"]:
        bar = "" if r["bar"] is None else f"{'<' if r['bar'] == 1 else '<='} {r['bar']:.3g}"
        figure = not_measured(r) if r["ratio"] is None else f"{r['ratio']:.3f}"
        rows.append((r["workload"], f"{r['mode']} / {r['base']}", figure, bar, VERDICTS[r["met"]],
                     "" if r["cpu"] is None else f"{r['cpu']:.3f}"))
    log, memory = result["race_log"], result["memory"]
    if log:
        figure = "-" if log["bytes_per_1000"] is None else f"{log['bytes_per_1000']:.2f}"
        rows.append(("boot+forkstorm", "race log, bytes / 1000 instructions", figure,
                     f"<= {log['bar']}", VERDICTS[log["met"]], ""))
    if memory:
        figure = "not told" if memory["bytes"] is None else f"{memory['share_per_vcpu']:.1%}"
        rows.append(("all", "L1 and directory / RAM, per vCPU", figure, f"<= {memory['bar']:.0%}",
                     VERDICTS[memory["met"]], ""))
    table(rows)


def print_against(against):
    rows = [("workload", "mode", "this / other", "cpu")]
    for workload, modes in against.items():
        for mode in sorted(modes, key=MODES.index):
            rows.append((workload, mode, *("-" if ratio is None else f"{ratio:.3f}"
                                           for ratio in modes[mode])))
    print()
    table(rows)


def print_pause(when, result):
    if result["seconds"]:
        print(f"\n{PAUSE} {when}: median {result['median']:.3f} s, "
              f"min {min(result['seconds']):.3f}, max {max(result['seconds']):.3f}; "
              f"bar <= {result['bar']:.2f}, {VERDICTS[result['met']]}")


def print_pauses(result):
    print_pause("when the recording of a running guest starts (512 MiB, 400 of them random)",
                result["start"])
    if result["later_mib"]:
        print_pause(f"for a later checkpoint ({statistics.median(result['later_mib']):.0f} MiB "
                    "written since the one before)", result["later"])
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")


def print_part(name, result):
    print(f"\n{name}: vCPUs {result['vcpus']}, host cores {os.cpu_count()}, "
          f"load average before {result['load_average'][0]:.1f}\n")
    print_times(result)
    print()
    print_ratios(result)
    if result["against"]:
        print_against(result["against"])
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")


# --- the file -----------------------------------------------------------------------

def build_id():
    digest = hashlib.sha256()
    for program in ("reprise", "qemu-system-aarch64"):
        with open(os.path.join(BIN, program), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def write_result(parts, rounds):
    """Beside the parts that were measured before, with this very build."""
    build, kept = build_id(), {}
    if os.path.exists(RESULT):
        with open(RESULT) as file:
            before = json.load(file)
        kept = before["parts"] if before.get("build") == build else {}
    with open(RESULT, "w") as file:
        json.dump({"build": build, "rounds": rounds, "host_cpus": os.cpu_count(),
                   "parts": kept | parts}, file, indent=2)
        file.write("\n")


# --- the command line ---------------------------------------------------------------

def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="tests/bench/run", description="Time a guest plain, recorded and replayed.",
        epilog="REPRISE_UNPATCHED=PATH: an unpatched qemu-system-aarch64, timed as well.")
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help=f"{', '.join(ALL)} (default: all)")
    parser.add_argument("-n", "--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--minutes", type=float, default=30,
                        help="no new run of a part after so long (default: 30)")
    parser.add_argument("--against", metavar="DIR",
                        help="compare with the programs of another build, side by side")
    options = parser.parse_args()
    options.unpatched = os.environ.get("REPRISE_UNPATCHED")
    for part in options.parts:
        if part not in ALL:
            parser.error(f"no part {part}: there are {', '.join(ALL)}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.unpatched and not os.access(options.unpatched, os.X_OK):
        parser.error(f"REPRISE_UNPATCHED: no emulator {options.unpatched}")
    for program in ("reprise", "qemu-system-aarch64") if options.against else ():
        if not os.access(os.path.join(options.against, program), os.X_OK):
            parser.error(f"--against: no {program} in {options.against}")
    return options


def say_load():
    load = os.getloadavg()
    print(f"load average {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}", flush=True)
    if load[0] > 0.5:
        print("WARNING: this host is not idle: do not trust these figures", flush=True)
    return load


def main():
    options = parse_arguments()
    os.makedirs(PLACE, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    load = say_load()
    results = {}
    try:
        for name in options.parts or ALL:
            results[name] = (measure_pause_part(options) if name == PAUSE
                             else result_of(name, measure_part(name, options), load))
            write_result(results, options.rounds)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    for name, result in results.items():
        if name == PAUSE:
            print_pauses(result)
        else:
            print_part(name, result)
    shutil.rmtree(PLACE)
    print(f"\nwritten to {os.path.relpath(RESULT, TOP)}; load average {os.getloadavg()[0]:.1f}")
    return 1 if any(result["failures"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
