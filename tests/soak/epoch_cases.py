# SPDX-License-Identifier: GPL-2.0-or-later
"""Epochs, followers, going live and standbys, as cases of the soak.

    epochs-arm-01 ... 04    25 replays each, in which a byte is spoiled: each is found in its epoch
    follow-arm-01 ... 06    a recording of five minutes, followed: no difference, and how far behind
    live-arm                a guest goes on from 30 checkpoints, taken under load, to its end
    standby-arm-01 ... 05   10 times, a server is killed, and its client does not notice
    standby-disk-arm-01, 02 likewise; it writes each answer down first, on a disk
    epochs-x86-01 ...       the same for x86_64 guests
"""

import contextlib
import functools
import hashlib
import os
import random
import re
import shutil
import statistics
import subprocess
import time

from tests.lib.checkout import TOP
from tests.lib.qmp import Qmp
from tests.lib.standby import Conversation, Disk
from tests.lib.tool import REPRISE, info, stop_tool
from tests.soak.cases import Case, served
from tests.soak.guest import (GUEST_OK, PLACE, QMP, QUIT_S, Failure, Recording, guest_command,
                              run_tool)

ARCHES = {"arm": "aarch64", "x86": "x86_64"}

SHARED = [f"epochs-shared-{kind}" for kind in ARCHES]
SPOIL_CASES, SPOILED = 4, 25
SPOIL_RUN = "forkstorm -t 2 -n 60 && pipes -t 2 -n 300 && racey -t 2 -n 1000000"
PATIENCE_S = 120

FOLLOW_CASES, FOLLOW_S = 6, 300
EPOCH_MS = 100
# Odd cases have one vCPU, even ones two: then recorder and follower want four cores.
FOLLOW_RUN = ("while :; do forkstorm -t 2 -n 20; pipes -t 2 -n 100; locks -t 2 -n 60000; "
              "faults -t 2 -n 2; racey -t 2 -n 200000; signals -t 2 -n 200; done")
FOLLOWER_QMP = os.path.relpath(os.path.join(PLACE, "follower"), TOP)

KILL_CASES, DISK_CASES, KILLS = 5, 2, 10

LIVE_FORKS = 30
LIVE_BAR_S = 1.0
CONTENT = bytes(range(256)) * 1024
# Connections end with the process that had them, so a transfer may have to be made again.
TRANSFERS = ("ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || exit; "
             "(i=0; while [ $i -lt 40 ]; do "
             "timeout 3 wget -q -O /run/file http://10.0.2.2:%d/file 2>/dev/null || continue; "
             "case $(sha256sum /run/file) in %s*) i=$((i + 1));; *) echo damaged; exit;; esac; "
             "done) & forkstorm -t 2 -n 20 && pipes -t 2 -n 200 && wait && echo all of it")
ALL_OF_IT, DAMAGED = re.compile(rb"^all of it", re.M), re.compile(rb"^damaged", re.M)


# --- a spoiled byte is found ---------------------------------------------------------------

def moment_of(point):
    return sum(int(place.split(":")[1]) for place in point.split(","))


def epochs_of(directory):
    """Of each, its number and how many steps the vCPUs have made."""
    with open(os.path.join(directory, "epochs"), encoding="ascii") as file:
        lines = [line.split() for line in file.read().splitlines()[1:]]
    return [(int(words[1]), moment_of(words[5])) for words in lines]


def checkpoints_of(directory):
    """How many steps the vCPUs have made at each."""
    places = []
    for name in info(directory)["checkpoints"]:
        path = os.path.join(directory, name, "place")
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                places.append(moment_of(re.search(r"^point (\S+)", file.read(), re.M).group(1)))
        else:
            places.append(0)
    return places


@functools.lru_cache
def shared(kind):
    recording = Recording(f"epochs-shared-{kind}")
    recording.arch = ARCHES[kind]
    shutil.rmtree(recording.directory, ignore_errors=True)
    recording.record(SPOIL_RUN, 2, options=["--epochs=50", "--checkpoint-interval", "0.5"])
    return recording.directory


def spoil(directory, number, offset, begin):
    """What the replay says, in which this byte is wrong in this epoch."""
    env = {**os.environ, "REPRISE_EPOCH_FAULT": f"{number}:{offset}"}
    done = subprocess.run([REPRISE, "replay", directory, "--from", str(begin)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=PATIENCE_S, env=env, encoding="utf-8")
    if done.returncode != 1:
        raise Failure(f"byte {offset} in epoch {number}: status {done.returncode}: {done.stderr}")
    return done.stderr


def spoiled(kind, seed):
    def function(recording):
        directory, draw = shared(kind), random.Random(f"{kind} {seed}")
        shutil.copytree(directory, recording.directory, copy_function=os.link)
        epochs, checkpoints = epochs_of(directory), checkpoints_of(directory)
        for _ in range(SPOILED):
            number, moment = draw.choice(epochs)
            behind = [i for i, place in enumerate(checkpoints) if place < moment]
            said = spoil(recording.directory, number, draw.randrange(512 << 20),
                         draw.choice(behind[-2:]))
            if f"in epoch {number} (" not in said or "expected RAM digest" not in said:
                raise Failure(f"spoiled in epoch {number}: {said}")
        return f"{SPOILED} of {SPOILED} found, in {len(epochs)} epochs"
    return function


# --- following ---------------------------------------------------------------------------------

def followed(directory, lags):
    """For run_tool: follows the recorder to its end."""
    def meanwhile(process, deadline):
        follower = subprocess.Popen([REPRISE, "replay", "--follow", directory, "--qmp",
                                     FOLLOWER_QMP], cwd=TOP, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                    encoding="utf-8", start_new_session=True)
        try:
            with contextlib.closing(Qmp(os.path.join(TOP, FOLLOWER_QMP), follower)) as qmp:
                qmp.socket.settimeout(PATIENCE_S)
                with contextlib.suppress(ConnectionResetError):
                    while True:
                        lags.append(qmp.event("RECORDER_FOLLOWED")["lag"])
            said = follower.communicate(timeout=PATIENCE_S)[1]
        finally:
            stop_tool(follower, QUIT_S)
        if follower.returncode != 0 or "replayed identically" not in said:
            raise Failure(f"follower: status {follower.returncode}: {said}")
        if f"; {len(lags)} epochs compared" not in said:
            raise Failure(f"{len(lags)} events, but {said}")
    return meanwhile


def follow(kind, smp):
    def function(recording):
        lags = []
        command = guest_command(FOLLOW_RUN, smp, arch=ARCHES[kind])
        run_tool(["record", "-o", recording.directory, f"--epochs={EPOCH_MS}", "--timeout",
                  str(FOLLOW_S), "--", *command], recording.path("console"), recording.path("log"),
                 FOLLOW_S + 2 * PATIENCE_S, followed(recording.directory, lags))
        if len(lags) < FOLLOW_S:
            raise Failure(f"only {len(lags)} epochs")
        return (f"{smp} vCPUs, {len(lags)} epochs, behind by {statistics.median(lags):.3f} s, "
                f"at most {max(lags):.3f}")
    return function


# --- going live -----------------------------------------------------------------------------------

def go_live(recording, number):
    """Seconds until the guest runs.  It must come to its end, and find all well."""
    console, began = recording.path("replayed"), time.monotonic()
    took = []

    def meanwhile(process, deadline):
        with contextlib.closing(Qmp(os.path.join(TOP, QMP), process)) as qmp:
            while not qmp("query-status")["return"]["running"]:
                if time.monotonic() > deadline:
                    raise TimeoutError
            took.append(time.monotonic() - began)

    run_tool(["live", recording.directory, "--from", str(number), "--as-recorded"], console,
             recording.path("log"), PATIENCE_S, meanwhile)
    with open(console, "rb") as file:
        output = file.read()
    if not GUEST_OK.search(output) or not ALL_OF_IT.search(output) or DAMAGED.search(output):
        raise Failure(f"from checkpoint {number}: {output[-400:].decode(errors='replace')}")
    return took


def live(kind):
    def function(recording):
        recording.arch = ARCHES[kind]
        with served(CONTENT) as port:
            run = TRANSFERS % (port, hashlib.sha256(CONTENT).hexdigest())
            recording.record(run, 2, options=["--live", "--checkpoint-interval", "0.1"],
                             arguments=["-netdev", "user,id=net", "-device",
                                        "virtio-net-pci,romfile=,netdev=net"])
            recording.replay()
            # The last ones may lie behind what the guest says at its end.
            n = len(info(recording.directory)["checkpoints"]) * 9 // 10
            if n < LIVE_FORKS:
                raise Failure(f"only {n} checkpoints")
            took = [seconds for i in range(LIVE_FORKS)
                    for seconds in go_live(recording, i * (n - 1) // (LIVE_FORKS - 1))]
        if not took or statistics.median(took) > LIVE_BAR_S:
            raise Failure(f"live after {took} s")
        return (f"{LIVE_FORKS} of {n} checkpoints, live after {statistics.median(took):.2f} s, "
                f"at most {max(took):.2f}")
    return function


# --- standbys --------------------------------------------------------------------------------

def fail_over(kind, seed, writes=False):
    def function(recording):
        draw, longest, silent = random.Random(f"{kind} {seed}"), [], []
        for _ in range(KILLS):
            shutil.rmtree(recording.directory, ignore_errors=True)
            talk = Conversation(PLACE, recording.directory, ARCHES[kind],
                                10 * draw.randrange(1, 10), draw.random() / 10, 150,
                                Disk(PLACE) if writes else None)
            longest.append(talk.longest_ms / 1000)
            silent.append(talk.silent_s)
        return (f"{KILLS} of {KILLS}, silent for {statistics.median(silent):.2f} s, at most "
                f"{max(silent):.2f}; longest answer {statistics.median(longest):.2f} s, at most "
                f"{max(longest):.2f}")
    return function


def epoch_cases():
    cases = []
    for kind in ARCHES:
        cases += [Case(f"epochs-{kind}-{i:02}", spoiled(kind, i), False)
                  for i in range(1, SPOIL_CASES + 1)]
        cases += [Case(f"follow-{kind}-{i:02}", follow(kind, 2 - i % 2), False)
                  for i in range(1, FOLLOW_CASES + 1)]
        cases += [Case(f"live-{kind}", live(kind), False)]
        cases += [Case(f"standby-{kind}-{i:02}", fail_over(kind, i), False)
                  for i in range(1, KILL_CASES + 1)]
        cases += [Case(f"standby-disk-{kind}-{i:02}", fail_over(kind, i, writes=True), False)
                  for i in range(1, DISK_CASES + 1)]
    return cases
