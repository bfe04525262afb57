# SPDX-License-Identifier: GPL-2.0-or-later
"""The part "pause": for how long a running guest stands still.

That is when its recording starts, for a later checkpoint, and at the end of an epoch.
"""

import statistics

from tests.bench.measure import Failure, measure_epochs, measure_pauses
from tests.bench.report import VERDICTS

PAUSE = "pause"
PAUSE_BAR_S = 1.0
LATER_BAR_S = 0.1             # with 20 MiB written
EPOCH_BARS_S = {5: 0.004, 20: 0.008}    # by MiB that have changed


def measure_pause_part(options):
    pauses, epochs, failures = [], {}, []
    try:
        pauses = measure_pauses(options.rounds)
        epochs = {mib: measure_epochs(mib) for mib in EPOCH_BARS_S}
    except (Failure, AssertionError, OSError) as failure:
        failures = [f"{PAUSE}: {failure}"]
    return {"start": pause_result([start for start, _ in pauses], PAUSE_BAR_S),
            "later": pause_result([pause for _, (pause, _) in pauses], LATER_BAR_S),
            "later_mib": [mib for _, (_, mib) in pauses],
            "epochs": {mib: pause_result(epochs.get(mib), bar)
                       for mib, bar in EPOCH_BARS_S.items()}, "failures": failures}


def pause_result(seconds, bar):
    median = statistics.median(seconds) if seconds else None
    return {"seconds": seconds, "median": median, "bar": bar, "met": median and median <= bar}


def print_pause(when, result):
    if result["seconds"]:
        print(f"\n{PAUSE} {when}: median {result['median']:.4f} s, "
              f"min {min(result['seconds']):.4f}, max {max(result['seconds']):.4f}; "
              f"bar <= {result['bar']:.3f}, {VERDICTS[result['met']]}")


def print_pauses(result):
    print_pause("when the recording of a running guest starts (512 MiB, 400 of them random)",
                result["start"])
    if result["later_mib"]:
        print_pause(f"for a later checkpoint ({statistics.median(result['later_mib']):.0f} MiB "
                    "written since the one before)", result["later"])
    for mib, epoch in result["epochs"].items():
        print_pause(f"at the end of an epoch in which about {mib} MiB were written", epoch)
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")
