# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests/bench/run measures with the stock image: parts, their programs and bars."""

# Modes, in the order of tables.  "plain tlb": plain, with TLBs as while recording.
MODES = ("unpatched", "plain", "plain tlb", "record", "replay", "single", "record karma",
         "record both", "replay fdr", "replay karma", "record epochs 200", "record epochs 50")
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
}


def part_of_several(vcpus, rounds, bars):
    """A part with several vCPUs; @rounds: `-n` of each program; @bars: of record / plain."""
    return {
        "smp": vcpus,
        "workloads": {name: f"{name} -n {n}" for name, n in rounds.items()},
        "replayed": ("private", "faults"),
        "ratios": [(name, "record", "plain", bar) for name, bar in bars.items()] + [
            ("private", "replay", "plain", 1.25),
            ("boot", "replay", "plain", 1.4),
            ("private", "replay", "single", 1 / 1.6),
            *((name, "replay", base, None) for name in rounds if name == "faults"
              for base in ("plain", "single")),
        ],
    }


PARTS |= {
    "smp2": part_of_several(
        2,
        {"private": 40, "faults": 40, "locks": 600000, "forkstorm": 120, "racey": 40000000,
         "pipes": 5000},
        {"private": 1.3, "boot": 1.3, "locks": 1.4, "forkstorm": 1.5, "racey": 3, "pipes": 1.6,
         "faults": None}),
    "smp4": part_of_several(
        4,
        {"private": 30, "faults": 30, "locks": 400000, "forkstorm": 80, "racey": 20000000,
         "pipes": 1500},
        {"private": 1.5, "boot": 1.4, "locks": 1.5, "forkstorm": 1.7, "racey": 4, "pipes": 2,
         "faults": None}),
}

# x86_64 guests.  "copy": the kernel copies by repeated string instructions.
COPY = ("dd if=/dev/zero of=/run/a bs=1M count=64 2>/dev/null; for i in $(seq %d); do "
        "(for j in $(seq %d); do dd if=/run/a of=/dev/null bs=1M 2>/dev/null; done) & done; wait")
PARTS |= {
    "x86-2": part_of_several(
        2,
        {"private": 20, "locks": 600000, "forkstorm": 80, "racey": 20000000, "pipes": 3000},
        {"private": 1.3, "boot": 1.4, "locks": 1.4, "forkstorm": 1.6, "racey": 3, "pipes": 1.7,
         "copy": 1.4}),
    "x86-4": part_of_several(
        4,
        {"private": 15, "locks": 400000, "forkstorm": 50, "racey": 10000000, "pipes": 1000},
        {"private": 1.5, "boot": 1.4, "locks": 1.6, "forkstorm": 1.8, "racey": 4, "pipes": 2,
         "copy": 1.5}),
}
for name in ("x86-2", "x86-4"):
    vcpus = PARTS[name]["smp"]
    PARTS[name]["arch"] = "x86_64"
    PARTS[name]["workloads"]["copy"] = COPY % (vcpus, 12 // vcpus)

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

# Recorded with epochs of so many milliseconds, beside without.
PARTS |= {
    f"epochs{n}": {
        "smp": n,
        "workloads": {"private": f"private -n {40 // n}", "faults": f"faults -n {40 // n}",
                      "forkstorm": f"forkstorm -n {150 // n}"},
        "modes": ["record", "record epochs 200", "record epochs 50"],
        "ratios": [(name, f"record epochs {ms}", "record", bar)
                   for name in ("boot", "private", "faults", "forkstorm")
                   for ms, bar in ((200, 1.05), (50, 1.15))],
    } for n in (1, 2)
}

RACE_LOG_BARS = {2: 1.0, 4: 1.2}        # bytes per 1000 instructions, on boot + forkstorm
MEMORY_BAR = 0.10               # of the guest's RAM, per vCPU


def ratios_of(part):
    """What is compared with what; what is with plain also with plain tlb, without a bar."""
    for workload, mode, base, bar in part["ratios"]:
        yield workload, mode, base, bar
        if base == "plain":
            yield workload, mode, "plain tlb", None
