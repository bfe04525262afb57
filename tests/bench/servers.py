# SPDX-License-Identifier: GPL-2.0-or-later
"""The parts servers2 and servers4: real servers and programs with several threads or processes.

Their programs are Debian's, in an image of its own (build/images/servers), which is built when
such a part is measured for the first time; that needs Debian's mirror.  guest/usr/local/bin there
has server-load, which runs a workload.

The work of a workload is always the same.  So modes are compared by the host's time for it, and
operations per second follow from how many operations the program says that it made.  What the
program itself says about its speed is kept as well ("own"); in replay it is what was recorded.

Bars: the geometric mean of all workloads, and the worst of them.
"""

import math
import os
import re
import statistics
import subprocess
from typing import Callable, NamedTuple

from tests.bench import host
from tests.bench.compare import Deadline, Times, chosen
from tests.bench.measure import THIS, Failure, Guest, keep_recording, measure
from tests.bench.parts import PLAIN_MODES
from tests.bench.report import VERDICTS, table
from tests.lib.checkout import TOP

IMAGE = "servers"
PACKAGES = ("redis-server", "redis-tools", "nginx-light", "apache2-utils", "sqlite3", "tcc",
            "libc6-dev", "make", "rt-tests", "sysbench", "python3", "pigz", "xz-utils")
ADDED = os.path.join(TOP, "tests", "bench", "guest")
MEM_MIB = 1024                  # the image is larger than the stock one

PARTS = {"servers2": 2, "servers4": 4}          # vCPUs
MOST_VCPUS = max(PARTS.values())
MODES = ("plain", "plain tlb", "record", "replay")

# Mean and worst, where there is a bar, by vCPUs or, with a load, for all.
RECORD_BARS = {2: (1.35, 1.7), 4: (1.45, 1.9)}
RECORD_BARS_CROWDED = (1.7, 2.2)
REPLAY_BAR, REPLAY_BAR_CROWDED = 1.1, 1.3
RACE_LOG_BAR = 2.0              # bytes per 1000 instructions, of redis


# --- workloads ------------------------------------------------------------------------

class Unreadable(Exception):
    """Output of a program that does not say what it should."""


def numbers(pattern, output):
    found = re.findall(pattern, output, re.M)
    if not found:
        raise Unreadable(f"no {pattern!r} in {output[-1000:]!r}")
    return [float(number) for number in found]


def elapsed(output):
    return numbers(r"^bench: end elapsed=([0-9.e-]+)$", output)[-1]


def redis(output, size):
    rates = numbers(r'^"(?:SET|GET)","([0-9.]+)"', output)
    if len(rates) != 2 or not all(rates):
        raise Unreadable(f"redis-benchmark: rates {rates}")
    return 2 * size, 2 * size / sum(size / rate for rate in rates)


def nginx(output, size):
    done, failed, rate = (numbers(rf"^{what}:\s+([0-9.]+)", output)[-1]
                          for what in ("Complete requests", "Failed requests",
                                       "Requests per second"))
    if done != size or failed:
        raise Unreadable(f"ab: {done:.0f} of {size} requests, {failed:.0f} failed")
    return done, rate


def hackbench(output, _):
    tasks, messages, seconds = (numbers(pattern, output)[-1] for pattern in (
        r"\(== (\d+) tasks\)", r"^Each sender will pass (\d+) messages", r"^Time: ([0-9.]+)"))
    return tasks / 2 * messages, tasks / 2 * messages / seconds


def sysbench(output, size, per_event=None):
    """Of mutex, an event is a thread, which takes this many locks."""
    events = numbers(r"total number of events:\s+(\d+)", output)[-1]
    seconds = numbers(r"total time:\s+([0-9.]+)s", output)[-1]
    if not per_event and events != size:
        raise Unreadable(f"sysbench: {events:.0f} of {size} events")
    done = events * (per_event or 1)
    return done, done / max(seconds, 1e-4)


def sysbench_mutex(output, size):
    return sysbench(output, size, per_event=size)


def counted(word):
    """A workload that says how many operations it made, and nothing of time."""
    def read(output, size):
        done = numbers(rf"^{word}: (\d+)", output)[-1]
        if not size - MOST_VCPUS < done <= size:        # each vCPU may round down
            raise Unreadable(f"{done:.0f} of {size} {word}")
        return done, done / max(elapsed(output), 0.01)
    return read


class Workload(NamedTuple):
    size: int           # for server-load
    operation: str      # what is counted
    read: Callable      # (output, size) -> (operations, operations per second by the guest's clock)


# Sizes so that each takes 3 to 8 s unrecorded on an idle host with two cores.
WORKLOADS = {
    "redis1": Workload(8000, "requests", redis),
    "redis3": Workload(3000, "requests", redis),
    "nginx": Workload(3500, "requests", nginx),
    "sqlite": Workload(5000, "transactions", counted("rows")),
    "compile": Workload(60, "files", counted("objects")),
    "hackbench": Workload(3500, "messages", hackbench),
    "threads": Workload(20000, "events", sysbench),
    "mutex": Workload(1000000, "locks", sysbench_mutex),
    "cpu": Workload(60000, "events", sysbench),
    "python-threads": Workload(1500, "jobs", counted("jobs")),
    "python-processes": Workload(3000, "jobs", counted("jobs")),
    "pigz": Workload(28672, "KiB", counted("packed KiB")),
    "xz": Workload(6144, "KiB", counted("packed KiB")),
}
REDIS = ("redis1", "redis3")


def build_image():
    command = [f"{TOP}/images/build", "--arch", "aarch64", "--name", IMAGE, "--add", ADDED]
    for package in PACKAGES:
        command += ["--package", package]
    if subprocess.run(command).returncode != 0:
        raise Failure("the image of the servers cannot be built")


# --- measuring ------------------------------------------------------------------------

class Measured:
    """What was measured of a part."""

    def __init__(self):
        self.times = Times()
        self.operations, self.own = {}, {}      # {workload: N}, {workload: {mode: [per second]}}
        self.race_log = {}                      # {workload: [bytes per 1000 instructions]}
        self.failures = []

    def add(self, workload, mode, took, size):
        done, rate = WORKLOADS[workload].read(took["output"], size)
        self.times.add(workload, mode, took)
        self.operations[workload] = done
        self.own.setdefault(workload, {}).setdefault(mode, []).append(rate)
        if mode == "record":
            self.race_log.setdefault(workload, []).append(took["race_log"])

    def measure(self, name, workload, label, options):
        """All modes of a workload, one after the other."""
        line, recorded = [], None
        size = max(8, round(WORKLOADS[workload].size * options.size))
        guest = Guest(PARTS[name], f"server-load {workload} {size}", IMAGE, MEM_MIB)
        for mode in MODES:
            try:
                took = measure(THIS, mode, guest, patience=options.patience)
                if mode == "replay" and took["output"] != recorded:
                    raise Failure(f"{guest.run}: the console of the replay differs")
                self.add(workload, mode, took, size)
            except (Failure, Unreadable) as failure:
                kept = None if mode in PLAIN_MODES else keep_recording(
                    THIS, f"{name}-{workload}-{len(self.failures)}")
                self.failures.append(f"{failure}\nthe recording: {kept}")
                print(f"{label}: FAILED: {self.failures[-1]}", flush=True)
                return              # what follows would need its recording
            recorded = took["output"]
            line.append(f"{mode} {took['boot']:.2f}+{took['run']:.2f}")
        print(f"{label}: {', '.join(line)} s", flush=True)


def measure_servers(name, options):
    measured = Measured()
    try:
        build_image()
    except Failure as failure:
        measured.failures.append(str(failure))
        return measured
    with host.crowded(options.crowded):
        measure_rounds(name, measured, options)
    return measured


def measure_rounds(name, measured, options):
    deadline = Deadline(name, options, usual=60)
    for number in range(1, options.rounds + 1):
        for workload in chosen(WORKLOADS, options):
            if deadline.is_over():
                return
            measured.measure(name, workload, f"{name}, round {number}, {workload}", options)


# --- results --------------------------------------------------------------------------

def bars(vcpus, load):
    """{(what, compared with): (bar of the mean, bar of the worst)}"""
    return {
        ("record", "plain tlb"): RECORD_BARS_CROWDED if load else RECORD_BARS[vcpus],
        ("record", "plain"): (None, None),
        ("replay", "record"): (REPLAY_BAR_CROWDED if load else REPLAY_BAR, None),
        ("plain tlb", "plain"): (None, None),
    }


def against_bar(figure, bar, is_whole):
    """A figure that leaves out a workload meets no bar."""
    met = None if bar is None or figure is None else is_whole and figure <= bar
    return {"figure": figure, "bar": bar, "met": met}


def ratio_result(measured, workloads, mode, base, mean_bar, worst_bar):
    times = measured.times
    each = {name: {"ratio": times.ratio(times.seconds, name, mode, base),
                   "cpu": times.ratio(times.cpu, name, mode, base)} for name in workloads}
    known = [r["ratio"] for r in each.values() if r["ratio"]]
    is_whole = len(known) == len(workloads) and not measured.failures
    mean = round(math.exp(statistics.fmean(map(math.log, known))), 4) if known else None
    return {"mode": mode, "base": base, "workloads": each,
            "mean": against_bar(mean, mean_bar, is_whole),
            "worst": against_bar(max(known, default=None), worst_bar, is_whole)}


def workload_result(measured, name):
    """Medians of each mode.  Seconds and processor seconds of all rounds, too."""
    operations, modes = measured.operations[name], {}
    for mode, seconds in measured.times.seconds[name].items():
        cpu = measured.times.cpu[name].get(mode, [])
        modes[mode] = {
            "seconds": seconds, "cpu_seconds": cpu,
            "per_second": operations / statistics.median(seconds),
            "own_per_second": statistics.median(measured.own[name][mode]),
            "cpu_seconds_per_operation": statistics.median(cpu) / operations if cpu else None,
        }
    return {"operation": WORKLOADS[name].operation, "operations": operations, "modes": modes}


def servers_result(name, measured, load, steal, options):
    vcpus, workloads = PARTS[name], chosen(WORKLOADS, options)
    logs = {w: statistics.median(measured.race_log[w]) for w in measured.race_log}
    of_redis = max((logs[w] for w in REDIS if w in logs), default=None)
    return {
        "vcpus": vcpus, "crowded": options.crowded, "size": options.size, "load_average": load,
        "steal": steal,
        "workloads": {w: workload_result(measured, w) for w in workloads
                      if w in measured.operations},
        "ratios": [ratio_result(measured, workloads, mode, base, *of_ratio)
                   for (mode, base), of_ratio in bars(vcpus, options.crowded).items()],
        "race_log": {"bytes_per_1000": logs, "redis": against_bar(of_redis, RACE_LOG_BAR, True)},
        "failures": measured.failures,
    }


def print_workloads(result):
    rows = [("workload", "mode", "median s", "operations", "1/s", "own 1/s", "cpu us each", "runs")]
    for name, workload in result["workloads"].items():
        for mode, m in workload["modes"].items():
            each = m["cpu_seconds_per_operation"]
            rows.append((name, mode, f"{statistics.median(m['seconds']):.3f}",
                         f"{workload['operations']:.0f} {workload['operation']}",
                         f"{m['per_second']:.1f}", f"{m['own_per_second']:.1f}",
                         "-" if each is None else f"{each * 1e6:.1f}", str(len(m["seconds"]))))
    table(rows)


def bar_row(what, how, r, digits=3):
    figure = "-" if r["figure"] is None else f"{r['figure']:.{digits}f}"
    return (what, how, figure, "" if r["bar"] is None else f"<= {r['bar']:.3g}",
            VERDICTS[r["met"]], "")


def print_server_ratios(result):
    """"cpu" is the same ratio of processor time."""
    rows = [("workload", "what / compared with", "measured", "bar", "", "cpu")]
    for ratio in result["ratios"]:
        how = f"{ratio['mode']} / {ratio['base']}"
        for name, r in ratio["workloads"].items():
            rows.append((name, how, *("-" if r["ratio"] is None else f"{r['ratio']:.3f}", "", ""),
                         "" if r["cpu"] is None else f"{r['cpu']:.3f}"))
        rows.append(bar_row("geometric mean", how, ratio["mean"]))
        rows.append(bar_row("worst", how, ratio["worst"]))
    what = "race log, bytes / 1000 instructions"
    rows += [(name, what, f"{figure:.2f}", "", "", "")
             for name, figure in result["race_log"]["bytes_per_1000"].items()]
    rows.append(bar_row("redis, worst", what, result["race_log"]["redis"], 2))
    table(rows)


def print_servers(name, result):
    crowd = f", crowded: {result['crowded']}" if result["crowded"] else ""
    small = f", {result['size']:g} of the usual size" if result["size"] != 1 else ""
    print(f"\n{name}: vCPUs {result['vcpus']}, host cores {os.cpu_count()}{crowd}{small}, "
          f"load average before {result['load_average'][0]:.1f}, {host.words_of_steal(result)}\n")
    if result["workloads"]:
        print_workloads(result)
        print()
    print_server_ratios(result)
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")
