# SPDX-License-Identifier: GPL-2.0-or-later
"""The part "pause": for how long a running guest stands still when its recording starts."""

import statistics

from tests.bench.measure import Failure, measure_pauses
from tests.bench.report import VERDICTS

PAUSE = "pause"
PAUSE_BAR_S = 1.0
LATER_BAR_S = 0.1             # with 20 MiB written


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
