# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests/bench/run measures with the stock image: parts, their programs and bars."""

# Modes, in the order of tables.  "plain tlb": plain, with TLBs as while recording.
MODES = ("unpatched", "plain", "plain tlb", "record", "replay", "single", "record karma",
         "record both", "replay fdr", "replay karma")
# Those that recordings have no part in.
PLAIN_MODES = ("unpatched", "plain", "plain tlb")
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

RACE_LOG_BARS = {2: 1.0, 4: 1.2}        # bytes per 1000 instructions, on boot + forkstorm
MEMORY_BAR = 0.10               # of the guest's RAM, per vCPU


def ratios_of(part):
    """What is compared with what; what is with plain also with plain tlb, without a bar."""
    for workload, mode, base, bar in part["ratios"]:
        yield workload, mode, base, bar
        if base == "plain":
            yield workload, mode, "plain tlb", None
