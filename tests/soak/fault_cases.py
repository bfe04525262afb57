# SPDX-License-Identifier: GPL-2.0-or-later
"""What people must be able to rely on, as cases of the soak.

    kill-001 ... 100    a recorder that is killed at a random moment: what it leaves replays, up
                        to a moment at most a second before
    kill-karma-01 ... 50        the same, of a recording in Karma's order
    kill-x86-01 ... 50          the same, of an x86_64 guest
    again               a guest that is recorded a hundred times in its life, while it works
    flight              the flight recorder over ten minutes of stress-ng: space, replay, speed
"""

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import time

from tests.lib.tool import kill_emulator
from tests.soak.cases import Case, image_with
from tests.soak.guest import QMP, Failure, connect, guest_command, run_tool

KILLS = 100
OTHER_KILLS = 50
MOST_LOST_S = 1.0
SAMPLE_S = 0.02
AGAIN = 100
BUSY = "while :; do forkstorm -t 4 -n 4; racey -t 4 -n 5000; pipes -t 4 -n 50; done"

FLIGHT_S = 600
KEEP_S = 10
# Of recording without keeping only the last seconds.
MOST_SLOWER = {"cpu pipe futex fork": 1.10, "cpu pipe futex fork vm": 1.20}


def positions(point):
    return [int(at.split(":")[1]) for at in point.split(",")]


# --- killed ---------------------------------------------------------------------------------

def kill_at(moment, samples):
    """For run_tool: notes where the vCPUs are, until the emulator is killed."""
    def meanwhile(process, _):
        with contextlib.closing(connect(process)) as qmp:
            began = time.monotonic()
            while time.monotonic() - began < moment:
                # A moment before it is asked: it was there then, or is by now.
                now = time.monotonic()
                state = qmp("query-recorder")["return"]
                if state["state"] == "recording":
                    samples.append((now, positions(state["point"])))
                time.sleep(SAMPLE_S)
            kill_emulator(process)
            samples.append((time.monotonic(), None))
    return meanwhile


def lost_s(samples, cut):
    """From the last moment at which no vCPU was behind the cut to the kill."""
    kept = [when for when, at in samples[:-1] if all(a <= c for a, c in zip(at, cut))]
    return samples[-1][0] - (kept[-1] if kept else samples[0][0])


def killed(seed, *options, arch="aarch64"):
    def function(recording):
        source = random.Random(f"{seed} {options}" if options else seed)
        moment, smp, samples = source.uniform(0.1, 8), source.choice([1, 2, 4]), []
        command = guest_command(BUSY, smp, arguments=["-qmp", f"unix:{QMP},server=on,wait=off"],
                                arch=arch)
        try:
            run_tool(["record", "-o", recording.directory, *options, "--", *command],
                     recording.path("console"), recording.path("log"), recording.patience,
                     kill_at(moment, samples))
        except Failure as expected:
            if "signal 9" not in str(expected) and "status 1" not in str(expected):
                raise
        if len(samples) < 2:
            return "killed before there was a recording"
        said = run_tool(["replay", recording.directory], recording.path("replayed"),
                        recording.path("log"), recording.patience)
        cut = re.search(r"up to the cut at position (\S+) in", said)
        if not cut:
            raise Failure(f"replay said: {said}")
        with open(recording.path("console"), "rb") as one, \
             open(recording.path("replayed"), "rb") as other:
            if not one.read().startswith(other.read()):
                raise Failure("the replay shows something else")
        lost = lost_s(samples, positions(cut.group(1)))
        if lost > MOST_LOST_S:
            raise Failure(f"killed after {moment:.2f} s, the cut lies {lost:.2f} s before")
        return f"{lost:.2f} s lost"
    return function


# --- again and again ----------------------------------------------------------------------------

def record_again(directory, times):
    def meanwhile(process, _):
        with contextlib.closing(connect(process)) as qmp:
            for i in range(times):
                time.sleep(random.uniform(0, 0.2))
                answers = [qmp("recorder-start", directory=f"{directory}-{i}")]
                time.sleep(random.uniform(0, 0.4))
                answers.append(qmp("recorder-stop"))
                if any("error" in answer for answer in answers):
                    raise Failure(f"recording {i}: {answers}")
            qmp("quit")
    return meanwhile


def again(recording):
    """The first recording is of the tool; the others are started and stopped over QMP."""
    command = guest_command(BUSY, 2, arguments=["-qmp", f"unix:{QMP},server=on,wait=off"])
    directory = recording.path("again")
    for old in range(AGAIN):
        shutil.rmtree(f"{directory}-{old}", ignore_errors=True)

    def meanwhile(process, deadline):
        with contextlib.closing(connect(process)) as qmp:
            time.sleep(5)
            qmp("recorder-stop")
        record_again(directory, AGAIN)(process, deadline)

    run_tool(["record", "-o", recording.directory, "--qmp", QMP + "-tool", "--", *command],
             recording.path("console"), recording.path("log"), 1800, meanwhile)
    for i in range(AGAIN):
        said = run_tool(["replay", f"{directory}-{i}"], recording.path("replayed"),
                        recording.path("log"), recording.patience)
        if "replayed identically" not in said:
            raise Failure(f"recording {i}: {said}")
        shutil.rmtree(f"{directory}-{i}")
    return f"{AGAIN} recordings"


# --- the flight recorder -------------------------------------------------------------------------

def bytes_on_disk(directory):
    done = subprocess.run(["du", "-s", "--block-size=1", directory], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, encoding="utf-8")
    return int(done.stdout.split()[0])


def watch_space(directory, taken):
    def meanwhile(process, _):
        while process.poll() is None:
            time.sleep(5)
            if os.path.isdir(directory):
                taken.append(bytes_on_disk(directory))
    return meanwhile


def stress_run(recording, directory, stressors, seconds, options, taken=None):
    """Operations of all stressors per second."""
    run = "stress-ng " + " ".join(f"--{name} 1" for name in stressors.split())
    run += " --vm-bytes 16m --vm-hang 1" if "vm" in stressors.split() else ""
    command = guest_command(f"{run} --timeout {seconds} --metrics-brief", 4, image_with("stress"))
    shutil.rmtree(directory, ignore_errors=True)
    run_tool(["record", "-o", directory, *options, "--", *command], recording.path("console"),
             recording.path("log"), seconds + 300,
             watch_space(directory, taken) if taken is not None else None)
    with open(recording.path("console"), encoding="utf-8", errors="replace") as file:
        found = re.findall(r"metrc: \[\d+\] (\S+) +(\d+) +([\d.]+)", file.read())
    rates = {name: int(operations) / float(real) for name, operations, real in found}
    if set(rates) != set(stressors.split()):
        raise Failure(f"stress-ng told {rates}")
    return rates


def slower(recording, stressors):
    """How many times as long an operation takes, the geometric mean over all stressors."""
    product = 1.0
    plain = stress_run(recording, recording.path("plain"), stressors, 60, [])
    flying = stress_run(recording, recording.path("plain"), stressors, 60,
                        ["--keep-seconds", str(KEEP_S)])
    for name in plain:
        product *= plain[name] / flying[name]
    shutil.rmtree(recording.path("plain"))
    return product ** (1 / len(plain))


def flight(recording):
    taken = []
    stress_run(recording, recording.directory, "cpu pipe futex fork vm", FLIGHT_S,
               ["--keep-seconds", str(KEEP_S)], taken)
    half = len(taken) // 2
    if max(taken[half:]) > 1.5 * max(taken[:half]):
        raise Failure(f"it grows: {[size >> 20 for size in taken]} MiB")
    run_tool(["verify", recording.directory], recording.path("replayed"), recording.path("log"),
             recording.patience)
    said = run_tool(["replay", recording.directory], recording.path("replayed"),
                    recording.path("log"), recording.patience)
    notes = [f"at most {max(taken) >> 20} MiB", said]
    for stressors, most in MOST_SLOWER.items():
        ratio = slower(recording, stressors)
        notes.append(f"{stressors}: {ratio:.2f} times as slow as plain recording")
        if ratio > most:
            raise Failure(f"{notes}: more than {most}")
    return json.dumps(notes)


def fault_cases():
    cases = [Case(f"kill-{i:03}", killed(i), False) for i in range(1, KILLS + 1)]
    cases += [Case(f"kill-karma-{i:02}", killed(i, "--order", "karma"), False)
              for i in range(1, OTHER_KILLS + 1)]
    cases += [Case(f"kill-x86-{i:02}", killed(i, arch="x86_64"), False)
              for i in range(1, OTHER_KILLS + 1)]
    return [*cases, Case("again", again, False), Case("flight", flight, False)]
