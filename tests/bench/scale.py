# SPDX-License-Identifier: GPL-2.0-or-later
"""The part "scale": what more vCPUs cost, on a host that has fewer cores.

A guest with 4, 8 and 16 vCPUs runs the same programs.  The cost of an instruction is QEMU's
processor time, from the first instruction to the end of the program, divided by the steps that
the recording has.  It is compared with the cost with 4 vCPUs.  A plain guest's instructions are
not counted, so what recording costs is a ratio of processor times.
"""

import os
import statistics

from tests.bench.compare import Deadline, Times, chosen
from tests.bench.host import words_of_steal
from tests.bench.measure import THIS, Failure, Guest, keep_recording, measure
from tests.bench.parts import PLAIN_MODES
from tests.bench.report import table

SCALE = "scale"
VCPUS = (4, 8, 16)
BASE = VCPUS[0]
MODES = ("plain tlb", "record", "replay")
MANY = ("-machine", "gic-version=3")            # GICv2 has eight CPUs

# For 4 vCPUs.  Every vCPU runs a thread, so with more of them each does less.
WORKLOADS = {"private": 20, "locks": 200000, "forkstorm": 40, "pipes": 800}


class Measured:
    """What was measured, by number of vCPUs."""

    def __init__(self):
        self.times = {n: Times() for n in VCPUS}
        self.cost = {}                  # {workload: {mode: {vCPUs: [ns per instruction]}}}
        self.failures = []

    def measure(self, workload, vcpus, label, options):
        """All modes of a workload, one after the other."""
        rounds = max(1, WORKLOADS[workload] * BASE // vcpus)
        guest = Guest(vcpus, f"{workload} -n {rounds}", arguments=MANY)
        line, instructions = [], None
        for mode in MODES:
            try:
                took = measure(THIS, mode, guest, patience=options.patience)
            except Failure as failure:
                kept = None if mode in PLAIN_MODES else keep_recording(
                    THIS, f"{SCALE}-{workload}-{vcpus}-{len(self.failures)}")
                self.failures.append(f"{failure}\nthe recording: {kept}")
                print(f"{label}: FAILED: {self.failures[-1]}", flush=True)
                return
            self.times[vcpus].add(workload, mode, took)
            instructions = took.get("instructions", instructions)
            if instructions and took["all cpu"] is not None:
                costs = self.cost.setdefault(workload, {}).setdefault(mode, {})
                costs.setdefault(vcpus, []).append(took["all cpu"] * 1e9 / instructions)
            line.append(f"{mode} {took['boot']:.2f}+{took['run']:.2f}")
        print(f"{label}: {', '.join(line)} s", flush=True)


def measure_scale(options):
    measured = Measured()
    deadline = Deadline(SCALE, options)
    for number in range(1, options.rounds + 1):
        for workload in chosen(WORKLOADS, options):
            for vcpus in VCPUS:
                if deadline.is_over():
                    return measured
                measured.measure(workload, vcpus,
                                 f"{SCALE}, round {number}, {workload}, {vcpus} vCPUs", options)
    return measured


def scale_result(measured, load, steal):
    costs = {}
    for workload, modes in measured.cost.items():
        for mode, by_vcpus in modes.items():
            medians = {n: statistics.median(ns) for n, ns in by_vcpus.items()}
            costs.setdefault(workload, {})[mode] = {
                n: {"ns": ns, "against_base": ns / medians[BASE] if BASE in medians else None}
                for n, ns in medians.items()}
    return {
        "vcpus": VCPUS, "base": BASE, "load_average": load, "steal": steal, "costs": costs,
        "cpu_ratios": {n: {workload: times.ratio(times.cpu, workload, "record", "plain tlb")
                           for workload in times.cpu}
                       for n, times in measured.times.items()},
        "seconds": {n: times.seconds for n, times in measured.times.items()},
        "failures": measured.failures,
    }


def print_scale(result):
    print(f"\n{SCALE}: vCPUs {', '.join(map(str, VCPUS))}, host cores {os.cpu_count()}, "
          f"load average before {result['load_average'][0]:.1f}, {words_of_steal(result)}\n")
    rows = [("workload", "mode", "vCPUs", "cpu ns / instruction", f"against {BASE} vCPUs")]
    for workload, modes in result["costs"].items():
        for mode, by_vcpus in modes.items():
            for n, cost in by_vcpus.items():
                against = cost["against_base"]
                rows.append((workload, mode, str(n), f"{cost['ns']:.1f}",
                             "-" if against is None else f"{against:.3f}"))
    table(rows)
    print()
    rows = [("workload", "what / compared with", "vCPUs", "cpu")]
    for n, ratios in result["cpu_ratios"].items():
        for workload, ratio in ratios.items():
            rows.append((workload, "record / plain tlb", str(n),
                         "-" if ratio is None else f"{ratio:.3f}"))
    table(rows)
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")
