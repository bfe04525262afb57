# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that runs is recorded over QMP: limits, events, clients that go away."""

import json
import os
import shutil
import socket
import time

from tests.lib.guest_recording import GuestWorkspace
from tests.lib.live_guest import PATIENCE_S, live_guest, socket_of, status
from tests.lib.process import run
from tests.lib.qmp import Qemu, Qmp
from tests.lib.tap import after_test, check, main, need_root, test
from tests.lib.tool import info

work = GuestWorkspace()
LATE_S = 20                 # at most, on a busy host


# --- limits and events ----------------------------------------------------------------

@test
def a_recording_ends_at_its_time_limit():
    directory = work.place("seconds")
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory, **{"max-seconds": 1.5}) == {"return": {}},
              "start")
        check(qmp.event("RECORDER_STARTED") == {"directory": directory}, "another one")
        shown = status(qmp)
        check(shown["max-seconds"] == 1.5 and "max-bytes" not in shown, shown)
        check("last-recording" not in shown, shown)
        ended = qmp.event("RECORDER_STOPPED")
        check(ended == {"directory": directory, "complete": True, "reason": "max-seconds"}, ended)
        check(qmp("query-status")["return"]["running"], "the guest does not go on")
        check(status(qmp)["last-recording"] == ended, status(qmp))
        qmp.close()
    said = info(directory)
    check(1.4 < said["seconds"] < 1.5 + LATE_S and said["end_reason"] == "max-seconds", said)
    work.replay(directory)


@test
def a_recording_ends_at_its_size_limit():
    """Every 100 steps are logged, so that it grows."""
    directory, limit = work.place("bytes"), 30 << 20
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory,
                  **{"max-bytes": limit, "digest-interval": 100}) == {"return": {}}, "start")
        seen = []
        while (shown := status(qmp))["state"] == "recording":
            seen.append(shown)
            time.sleep(0.05)
        ended = qmp.event("RECORDER_STOPPED")
        check(ended["reason"] == "max-bytes" and ended["complete"], ended)
        qmp.close()
    check(any(shown["rate"] > 100000 for shown in seen), [shown["rate"] for shown in seen])
    sizes = [shown["stored-bytes"] for shown in seen]
    check(sizes == sorted(sizes) and sizes[0] < sizes[-1], sizes)
    check(all(shown["max-bytes"] == limit and shown["free-bytes"] > 0 for shown in seen), seen[-1])
    size = sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(directory) for name in names)
    check(limit < size < 2 * limit, f"{size} bytes, the limit was {limit}")
    work.replay(directory)


@test
def the_limit_of_a_paused_guest_leaves_it_paused():
    directory = work.place("paused")
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory, **{"max-seconds": 1}) == {"return": {}},
              "start")
        qmp("stop")
        ended = qmp.event("RECORDER_STOPPED")
        check(ended["reason"] == "max-seconds" and ended["complete"], ended)
        check(not qmp("query-status")["return"]["running"], "it runs")
        qmp.close()
    work.replay(directory)


@test
def limits_that_make_no_sense_are_refused():
    with Qemu("aarch64", "-cpu", "cortex-a72,pmu=off") as qemu:
        for name in ("max-bytes", "max-seconds"):
            answer = qemu.qmp("recorder-start", directory=work.place("senseless"), **{name: 0})
            check(name in answer["error"]["desc"], answer)
        check(not os.path.exists(work.path("senseless")), "it left something behind")


@test
def low_disk_space_is_told_once():
    need_root()
    disk = work.place("disk")
    os.mkdir(disk)
    run("mount", "-t", "tmpfs", "-o", "size=64M", "tmpfs", disk)
    after_test(run, "umount", disk)
    directory = os.path.join(disk, "recording")
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(qmp("recorder-start", directory=directory,
                  **{"digest-interval": 1}) == {"return": {}},
              "start")
        low = qmp.event("RECORDER_LOW_DISK_SPACE")
        check(low["directory"] == directory and 0 <= low["free-bytes"] < low["threshold"], low)
        check(low["threshold"] == (64 << 20) // 100 * 5, low)
        ended = qmp.event("RECORDER_STOPPED")
        check(not ended["complete"] and "No space left" in ended["reason"], ended)
        check(status(qmp)["last-recording"] == ended, status(qmp))
        check(not qmp.named("RECORDER_LOW_DISK_SPACE"), "told again")
        check(qmp("query-status")["return"]["running"], "the guest does not go on")
        qmp.close()
    work.replay(directory)


def replayed(directory):
    """A replay's events, and what query-recorder said meanwhile."""
    path = work.path("replay.qmp")
    process = work.start("replay", directory, "--qmp", path, "--until", "0", "--pause-at-end")
    qmp = Qmp(path, process)
    qmp.replay_from_here(directory)
    shown, deadline = [], time.monotonic() + PATIENCE_S
    while not qmp.named("RECORDER_REPLAYED"):
        now = status(qmp)
        if now["state"] == "replaying":
            shown.append(now)
        check(time.monotonic() < deadline, f"it does not end: {now}")
    qmp("quit")
    qmp.close()
    process.communicate()
    return qmp.events, shown


@test
def a_divergence_is_an_event():
    directory = work.copy_of_hello()
    other = work.place("other")
    work.record(other, "--run", "echo hello, too")
    shutil.copy(os.path.join(other, "vcpu-0.data"), directory)
    events, _ = replayed(directory)
    names = [event["event"] for event in events if event["event"].startswith("RECORDER_")]
    check(names == ["RECORDER_DIVERGED", "RECORDER_REPLAYED"], events)
    diverged, judged = [e["data"] for e in events if e["event"].startswith("RECORDER_")]
    check(diverged["vcpu"] == 0 and diverged["position"] > 0, diverged)
    check(f"vCPU 0 at position {diverged['position']}" in diverged["divergence"], diverged)
    check(judged == {"identical": False, "divergence": diverged["divergence"]}, judged)


@test
def a_replay_shows_its_progress():
    events, shown = replayed(work.hello()[0])
    progress = [now["progress"] for now in shown]
    check(progress == sorted(progress) and 0 <= progress[0] < progress[-1] <= 1, progress[:10])
    check(not any(e["event"] == "RECORDER_DIVERGED" for e in events), events)


# --- clients that go away -----------------------------------------------------------------

def send_and_hang_up(text):
    """What a client that dies in mid-command leaves."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(socket_of(work))
        stream = client.makefile("rw", encoding="utf-8")
        stream.readline()
        stream.write('{"execute": "qmp_capabilities"}')
        stream.flush()
        stream.readline()
        stream.write(text)
        stream.flush()


@test
def clients_that_hang_up_do_no_harm():
    directory = work.place("hung-up")
    start = json.dumps({"execute": "recorder-start", "arguments": {"directory": directory}})
    with live_guest(work) as guest:
        send_and_hang_up(start[:40])
        qmp = guest.connect()
        check(status(qmp)["state"] == "off", "half a command was done")
        qmp.close()
        send_and_hang_up(start)
        qmp = guest.connect()
        deadline = time.monotonic() + PATIENCE_S
        # It may be that QEMU noticed first that nobody is there.
        if status(qmp)["state"] == "off":
            check(qmp("recorder-start", directory=directory) == {"return": {}}, "cannot be started")
        qmp.close()
        for _ in range(20):
            send_and_hang_up('{"execute": "query-recorder"}' * 3)
        send_and_hang_up('{"execute": "recorder-stop"')
        qmp = guest.connect()
        check(status(qmp)["state"] == "recording", status(qmp))
        qmp.close()
        send_and_hang_up('{"execute": "recorder-stop"}')
        qmp = guest.connect()
        if status(qmp)["state"] == "recording":
            qmp("recorder-stop")
        check(status(qmp)["last-recording"]["complete"], status(qmp))
        check(qmp("query-status")["return"]["running"] and time.monotonic() < deadline, "it hangs")
        qmp.close()
    work.replay(directory)


main(work)
