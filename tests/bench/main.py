# SPDX-License-Identifier: GPL-2.0-or-later
"""What recording and replaying cost: one guest, several ways to run it, side by side.

    tests/bench/run                 all parts
    tests/bench/run smp2 smp4       these; build/bench.json keeps the others

A part is a number of vCPUs: one, smp2, smp4, of x86_64 guests x86-2 and x86-4; orders2,
orders4: Karma's order beside FDR's; epochs1, epochs2: with epochs beside without (parts.py);
servers2, servers4: real servers (servers.py); scale: more vCPUs, up to 16 (scale.py);
follow: a replay beside the recorder (follow.py); or "pause": for how long a running guest
stands still, when its recording starts (its memory is full of random data; QEMU's own times
of STOP and RESUME tell), and later (pause.py).
Each round runs every workload of it unpatched (if REPRISE_UNPATCHED names such a
qemu-system-aarch64), plain (our emulator, not recording), plain with the TLBs that a
recorded guest has ("plain tlb"), recorded and replayed, one after the other, so that a
host that slows down slows all of them.  measure.py says how time is taken.

With --crowded LOAD other processes want the host's cores, too, while servers are
measured (host.py).

With --against DIR, which has the programs of another build (reprise and both
emulators), each run is made with them as well, just before or just after, and a
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
import sys

from tests.bench import follow, host, parts, scale, servers
from tests.bench.compare import measure_part
from tests.bench.measure import PATIENCE_S, PLACE
from tests.bench.pause import PAUSE, measure_pause_part, print_pauses
from tests.bench.report import print_part, result_of
from tests.lib import lock
from tests.lib.checkout import BUILD, TOP
from tests.lib.tool import BIN

RESULT = os.path.join(BUILD, "bench.json")
PROGRAMS = ("reprise", "qemu-system-aarch64", "qemu-system-x86_64")
ALL = (*parts.PARTS, *servers.PARTS, scale.SCALE, follow.FOLLOW, PAUSE)


# --- the file -----------------------------------------------------------------------

def build_id():
    digest = hashlib.sha256()
    for program in PROGRAMS:
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
    parser.add_argument("--minutes", type=float,
                        help="no new run of a part after so long (default: 30; servers: 60)")
    parser.add_argument("--patience", type=float, default=PATIENCE_S, metavar="SECONDS",
                        help=f"a run that takes longer hangs (default: {PATIENCE_S})")
    parser.add_argument("--workload", action="append", metavar="NAME",
                        help="only this workload of a part; may be repeated")
    parser.add_argument("--size", type=float, default=1, metavar="FACTOR",
                        help="work of the servers, against the usual one: to try them")
    parser.add_argument("--crowded", choices=host.LOADS, metavar="LOAD",
                        help=f"other work on the host's cores beside servers: "
                             f"{', '.join(host.LOADS)}")
    parser.add_argument("--against", metavar="DIR",
                        help="compare with the programs of another build, side by side "
                             "(not servers, scale nor follow)")
    options = parser.parse_args()
    options.unpatched = os.environ.get("REPRISE_UNPATCHED")
    for part in options.parts:
        if part not in ALL:
            parser.error(f"no part {part}: there are {', '.join(ALL)}")
    for workload in options.workload or ():
        if not any(workload in workloads_of(part) for part in options.parts or ALL):
            parser.error(f"--workload: none of these parts has {workload}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.unpatched and not os.access(options.unpatched, os.X_OK):
        parser.error(f"REPRISE_UNPATCHED: no emulator {options.unpatched}")
    for program in PROGRAMS if options.against else ():
        if not os.access(os.path.join(options.against, program), os.X_OK):
            parser.error(f"--against: no {program} in {options.against}")
    if options.crowded:
        check_crowded(parser, options)
    return options


def workloads_of(part):
    if part in parts.PARTS:
        return parts.PARTS[part]["workloads"]
    return {scale.SCALE: scale.WORKLOADS, follow.FOLLOW: follow.WORKLOADS,
            PAUSE: ()}.get(part, servers.WORKLOADS)


def check_crowded(parser, options):
    options.parts = options.parts or list(servers.PARTS)
    if not set(options.parts) <= set(servers.PARTS):
        parser.error(f"--crowded: only for {', '.join(servers.PARTS)}")
    try:
        host.check_load(options.crowded)
    except host.Refused as refused:
        parser.error(f"--crowded: {refused}")


def alone():
    """A lock, or None: two benchmarks would slow each other, and share files."""
    return lock.take(os.path.join(BUILD, "bench.lock"))


def say_load():
    load = os.getloadavg()
    print(f"load average {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}", flush=True)
    if load[0] > 0.5:
        print("WARNING: this host is not idle: do not trust these figures", flush=True)
    return load


def measure_any(name, options, load):
    """A part of any kind, and what it is called in the file."""
    steal = host.Steal()
    if name == PAUSE:
        return name, measure_pause_part(options)
    if name == scale.SCALE:
        measured = scale.measure_scale(options)
        return name, scale.scale_result(measured, load, steal.share())
    if name == follow.FOLLOW:
        measured = follow.measure_follow(options)
        return name, follow.follow_result(measured, load, steal.share())
    if name in servers.PARTS:
        measured = servers.measure_servers(name, options)
        called = f"{name} {options.crowded}" if options.crowded else name
        return called, servers.servers_result(name, measured, load, steal.share(), options)
    measured = measure_part(name, options)
    return name, result_of(name, measured, load, steal.share())


def print_any(name, result):
    if name == PAUSE:
        print_pauses(result)
    elif name == scale.SCALE:
        scale.print_scale(result)
    elif name == follow.FOLLOW:
        follow.print_follow(result)
    elif name.split()[0] in servers.PARTS:
        servers.print_servers(name, result)
    else:
        print_part(name, result)


def main():
    options = parse_arguments()
    os.makedirs(PLACE, exist_ok=True)
    only = alone()
    if not only:
        print("tests/bench/run: another benchmark measures in this build: wait for its end",
              file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    load = say_load()
    results = {}
    try:
        for name in options.parts or ALL:
            called, result = measure_any(name, options, load)
            results[called] = result
            write_result(results, options.rounds)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except host.Refused as refused:
        print(f"tests/bench/run: {refused}", file=sys.stderr)
        return 1
    for name, result in results.items():
        print_any(name, result)
    shutil.rmtree(PLACE)
    print(f"\nwritten to {os.path.relpath(RESULT, TOP)}; load average {os.getloadavg()[0]:.1f}")
    return 1 if any(result["failures"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
