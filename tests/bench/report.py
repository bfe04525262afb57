# SPDX-License-Identifier: GPL-2.0-or-later
"""Results of the parts of parts.py: against their bars, as JSON and as tables."""

import os
import statistics

from tests.bench.host import words_of_steal
from tests.bench.parts import MEMORY_BAR, MODES, PARTS, RACE_LOG_BARS, RAM_BYTES, ratios_of

VERDICTS = {None: "", True: "holds", False: "MISSED"}


def results_of_ratios(part, times):
    """With the bar and whether it holds (None: no bar, or not measured)."""
    results = []
    for workload, mode, base, bar in ratios_of(part):
        ratio = times.ratio(times.seconds, workload, mode, base)
        if base == "unpatched" and ratio is None:
            continue
        # A bar of exactly 1 means "faster", the others "at most".
        met = None if bar is None or ratio is None else ratio < bar if bar == 1 else ratio <= bar
        results.append({"workload": workload, "mode": mode, "base": base, "bar": bar, "met": met,
                        "ratio": ratio, "cpu": times.ratio(times.cpu, workload, mode, base)})
    return results


def result_of(name, measured, load, steal):
    part, times = PARTS[name], measured.times["this"]
    race_log = statistics.median(times.race_log) if times.race_log else None
    memory = max(times.memory, default=None)
    share = memory and memory / RAM_BYTES / part["smp"]
    several = part["smp"] > 1
    return {
        "vcpus": part["smp"], "workloads": part["workloads"], "load_average": load,
        "steal": steal,
        "seconds": times.seconds, "cpu_seconds": times.cpu,
        "ratios": results_of_ratios(part, times),
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


def print_part(name, result):
    print(f"\n{name}: vCPUs {result['vcpus']}, host cores {os.cpu_count()}, "
          f"load average before {result['load_average'][0]:.1f}, {words_of_steal(result)}\n")
    print_times(result)
    print()
    print_ratios(result)
    if result["against"]:
        print_against(result["against"])
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")
