# SPDX-License-Identifier: GPL-2.0-or-later
"""The part "follow": a recording that is followed, as in Respec's table 1.

Each guest boots, runs a program and ends: alone ("plain"), beside another one that does the same
("twice", which is the least that it can cost to run it twice), recorded with epochs ("record"),
recorded while a follower replays it ("followed", until the recorder ends; "follower", until the
follower has compared all), and recorded with a standby ("protected", until the recorder ends).
Seconds are those of the whole process.

How far the follower is behind is told in epochs: the time from the end of an epoch, in the
recorder, until the follower has compared it.
"""

import contextlib
import os
import shutil
import statistics
import subprocess
import time

from tests.bench.compare import Deadline, chosen
from tests.bench.host import words_of_steal
from tests.bench.measure import PLACE, QUIT_S, THIS, Failure, Guest, guest_command
from tests.bench.report import VERDICTS, table
from tests.lib.qmp import Qmp
from tests.lib.tool import stop_tool

FOLLOW = "follow"
VCPUS = (1, 2, 4)
EPOCH_S = 0.2                   # the tool's default
LAG_BAR = 1.5                   # epochs, if each vCPU of both has a core
PROTECTED_BAR = 1.35            # times plain, likewise
WAYS = ("plain", "twice", "record", "followed", "follower", "protected")
# Of the program, for one vCPU; with more of them each does less.
WORKLOADS = {"private": 60, "faults": 40, "forkstorm": 150, "pipes": 1500}
SOCKET = os.path.join(PLACE, "follower")
PRIMARY = os.path.join(PLACE, "primary")


class Running:
    """Processes in the background."""

    def __init__(self, *commands):
        self.began = time.monotonic()
        self.processes = []
        for command in commands:
            self.start(command)

    def start(self, command):
        self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                               encoding="utf-8", start_new_session=True))

    def end(self, process, patience):
        """Seconds until it has ended, well."""
        try:
            said = process.communicate(timeout=patience)[1]
        except subprocess.TimeoutExpired:
            raise Failure(f"{process.args[:3]}: no end in {patience:g} s") from None
        took = time.monotonic() - self.began
        if process.returncode != 0:
            raise Failure(f"{process.args[:3]}: status {process.returncode}: {said}")
        return took

    def stop(self):
        for process in self.processes:
            stop_tool(process, QUIT_S)


def run_all(commands, patience):
    """Seconds until the last of them has ended."""
    running = Running(*commands)
    try:
        return max(running.end(process, patience) for process in running.processes)
    finally:
        running.stop()


def lags_of(follower, patience):
    """How many seconds it was behind, at each epoch."""
    lags = []
    with contextlib.closing(Qmp(SOCKET, follower)) as qmp:
        qmp.socket.settimeout(patience)
        with contextlib.suppress(ConnectionResetError):
            while True:
                lags.append(qmp.event("RECORDER_FOLLOWED")["lag"])
    return lags


def run_followed(record, patience):
    """Seconds until the recorder has ended, and the follower; and how far that was behind."""
    running = Running(record, [THIS.reprise, "replay", "--follow", THIS.recording, "--qmp", SOCKET])
    recorder, follower = running.processes
    try:
        lags = lags_of(follower, patience)
        # The recorder has ended first; its files tell when.
        seconds = running.end(follower, patience)
        running.end(recorder, patience)
        ended = os.stat(os.path.join(THIS.recording, "manifest")).st_mtime
        began = time.time() - (time.monotonic() - running.began)
        return ended - began, seconds, lags
    finally:
        running.stop()


def run_protected(plain, patience):
    """Seconds until the recorder has ended, with a standby that then has compared all."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(PRIMARY)
    running = Running([THIS.reprise, "protect", "-o", THIS.recording, "--qmp", PRIMARY, "--",
                       *plain])
    try:
        while not os.path.exists(PRIMARY) and running.processes[0].poll() is None:
            time.sleep(0.01)
        running.start([THIS.reprise, "standby", THIS.recording, "--primary", PRIMARY, "--", *plain])
        seconds = running.end(running.processes[0], patience)
        running.end(running.processes[1], patience)
        return seconds
    finally:
        running.stop()


class Measured:
    def __init__(self):
        self.seconds = {}               # {workload: {vCPUs: {way: [seconds]}}}
        self.lags = {}                  # {workload: {vCPUs: [seconds]}}
        self.failures = []

    def add(self, workload, vcpus, way, seconds):
        ways = self.seconds.setdefault(workload, {}).setdefault(vcpus, {})
        ways.setdefault(way, []).append(seconds)

    def measure(self, workload, vcpus, label, patience):
        guest = Guest(vcpus, f"{workload} -n {max(1, WORKLOADS[workload] // vcpus)}")
        plain = guest_command(THIS, guest)
        record = [THIS.reprise, "record", "-o", THIS.recording, f"--epochs={EPOCH_S * 1000:.0f}",
                  "--", *plain]
        self.add(workload, vcpus, "plain", run_all([plain], patience))
        self.add(workload, vcpus, "twice", run_all([plain, plain], patience))
        for followed in (False, True):
            shutil.rmtree(THIS.recording, ignore_errors=True)
            if not followed:
                self.add(workload, vcpus, "record", run_all([record], patience))
                continue
            recorder, follower, lags = run_followed(record, patience)
            self.add(workload, vcpus, "followed", recorder)
            self.add(workload, vcpus, "follower", follower)
            self.lags.setdefault(workload, {}).setdefault(vcpus, []).extend(lags)
        shutil.rmtree(THIS.recording, ignore_errors=True)
        self.add(workload, vcpus, "protected", run_protected(plain, patience))
        ways = self.seconds[workload][vcpus]
        print(f"{label}: {', '.join(f'{way} {ways[way][-1]:.2f}' for way in WAYS)} s", flush=True)


def measure_follow(options):
    measured = Measured()
    deadline = Deadline(FOLLOW, options)
    for number in range(1, options.rounds + 1):
        for workload in chosen(WORKLOADS, options):
            for vcpus in VCPUS:
                if deadline.is_over():
                    return measured
                label = f"{FOLLOW}, round {number}, {workload}, {vcpus} vCPUs"
                try:
                    measured.measure(workload, vcpus, label, options.patience)
                except (Failure, AssertionError, OSError) as failure:
                    measured.failures.append(f"{label}: {failure}")
                    print(f"FAILED: {measured.failures[-1]}", flush=True)
    return measured


def follow_result(measured, load, steal):
    rows = {}
    for workload, by_vcpus in measured.seconds.items():
        for vcpus, ways in by_vcpus.items():
            medians = {way: statistics.median(seconds) for way, seconds in ways.items()}
            lags = measured.lags.get(workload, {}).get(vcpus)
            rows.setdefault(workload, {})[vcpus] = {
                "median": medians, "epochs": len(lags) if lags else 0,
                "lag_epochs": statistics.median(lags) / EPOCH_S if lags else None,
            }
    return {"vcpus": VCPUS, "load_average": load, "steal": steal, "rows": rows,
            "seconds": measured.seconds, "failures": measured.failures}


def print_follow(result):
    cores = os.cpu_count()
    print(f"\n{FOLLOW}: host cores {cores}, load average before {result['load_average'][0]:.1f}, "
          f"{words_of_steal(result)}\n")
    rows = [("workload", "vCPUs", *(f"{way} s" for way in WAYS), "record / plain",
             "followed / plain", "follower / twice", "epochs", "behind", "", "protected / plain",
             "")]
    for workload, by_vcpus in result["rows"].items():
        for vcpus, row in by_vcpus.items():
            median, lag = row["median"], row["lag_epochs"]
            if any(way not in median for way in WAYS):
                continue
            has_cores = 2 * int(vcpus) <= cores
            protected = median["protected"] / median["plain"]
            rows.append((workload, str(vcpus), *(f"{median[way]:.2f}" for way in WAYS),
                         f"{median['record'] / median['plain']:.2f}",
                         f"{median['followed'] / median['plain']:.2f}",
                         f"{median['follower'] / median['twice']:.2f}", str(row["epochs"]),
                         "-" if lag is None else f"{lag:.2f}",
                         f"<= {LAG_BAR} {VERDICTS[lag <= LAG_BAR]}" if has_cores and lag else "",
                         f"{protected:.2f}", f"<= {PROTECTED_BAR} "
                         f"{VERDICTS[protected <= PROTECTED_BAR]}" if has_cores else ""))
    table(rows)
    for failure in result["failures"]:
        print(f"\nFAILED: {failure}")
