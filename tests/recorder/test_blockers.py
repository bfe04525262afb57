# SPDX-License-Identifier: GPL-2.0-or-later
"""Others who use the dirty bits of memory, or load a state, while a guest is recorded or replayed:
they are refused with one line, and nothing is harmed.  It is the same the other way round."""

import contextlib
import os
import time

from tests.lib.debug_session import start_debug
from tests.lib.guest_recording import GuestWorkspace, end, stock_command
from tests.lib.live_guest import live_guest, status
from tests.lib.process import one_line
from tests.lib.qmp import Qemu, Qmp
from tests.lib.tap import check, main, test
from tests.lib.tool import info

work = GuestWorkspace()
PATIENCE_S = 60
RECORDED = "while a recording is made, since it "
STOP_FIRST = ": end it with recorder-stop first"
REPLAYED = "while a recording is replayed, since its devices do nothing: end the replay first"


# --- those who save and load ------------------------------------------------------------------

def refusal(answer):
    """Of a command; empty if it was done."""
    return answer.get("error", {}).get("desc", "")


def hmp(qmp, line):
    return qmp("human-monitor-command", **{"command-line": line})["return"].strip()


def job(qmp, command, **arguments):
    """Why it failed; empty if it did not."""
    check(not refusal(qmp(command, **{"job-id": "job", **arguments})), command)
    while qmp("query-jobs")["return"][0]["status"] != "concluded":
        time.sleep(0.01)
    error = qmp("query-jobs")["return"][0].get("error", "")
    qmp("job-dismiss", id="job")
    return error


def snapshot(qmp, command, tag):
    return job(qmp, command, tag=tag, vmstate="disk", devices=["disk"])


def migrate(qmp, where, mode="normal"):
    qmp("migrate-set-parameters", mode=mode)
    said = refusal(qmp("migrate", uri=where))
    qmp("migrate-set-parameters", mode="normal")
    return said


def background_snapshot(qmp):
    """Of a host whose kernel can do that."""
    def set_to(state):
        return refusal(qmp("migrate-set-capabilities", capabilities=[
            {"capability": "background-snapshot", "state": state}]))
    said = set_to(True) or migrate(qmp, f"file:{work.path('stream')}")
    set_to(False)
    return said


def dirty_rate(qmp, mode, seconds=1):
    return refusal(qmp("calc-dirty-rate", **{"calc-time": seconds, "mode": mode}))


USERS = {
    "savevm": lambda qmp: hmp(qmp, "savevm other"),
    "snapshot-save": lambda qmp: snapshot(qmp, "snapshot-save", "another"),
    "migrate to a file": lambda qmp: migrate(qmp, f"file:{work.path('stream')}"),
    "migrate to a program": lambda qmp: migrate(qmp, "exec:cat >/dev/null"),
    "migrate to a socket": lambda qmp: migrate(qmp, f"unix:{work.path('stream')}"),
    "cpr-reboot": lambda qmp: migrate(qmp, f"file:{work.path('stream')}", "cpr-reboot"),
    "background snapshot": background_snapshot,
    "dirty bits": lambda qmp: dirty_rate(qmp, "dirty-bitmap"),
    "loadvm": lambda qmp: hmp(qmp, "loadvm before"),
    "snapshot-load": lambda qmp: snapshot(qmp, "snapshot-load", "before"),
    "devices of Xen": lambda qmp: refusal(qmp("xen-load-devices-state", filename="/dev/null")),
}
# These say no by themselves: Xen's of a guest that runs, and if this host cannot do it.
SAY_NO = {"devices of Xen": "while vm is running", "background snapshot": "not supported"}


def make_disk(qmp):
    """One that can hold snapshots; the guest has nothing to do with it."""
    disk = work.path("disk.qcow2")
    with open(disk, "wb"):
        pass
    qmp("blockdev-add", driver="file", filename=disk, **{"node-name": "file"})
    check(not job(qmp, "blockdev-create",
                  options={"driver": "qcow2", "file": "file", "size": 1 << 20}), "blockdev-create")
    qmp("blockdev-add", driver="qcow2", file="file", **{"node-name": "disk"})


@contextlib.contextmanager
def guest_with_disk():
    """It runs, and has a snapshot named `before`."""
    with live_guest(work) as guest:
        qmp = guest.connect()
        make_disk(qmp)
        check(hmp(qmp, "savevm before") == "", "it cannot be saved at all")
        yield qmp
        qmp.close()


def is_blocked(qmp):
    return "blocked-reasons" in qmp("query-migrate")["return"]


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < deadline, "it does not come")
        time.sleep(0.01)


def migration_is(qmp, state):
    return qmp("query-migrate")["return"].get("status") == state


def measured(qmp):
    return qmp("query-dirty-rate")["return"]["status"] == "measured"


# --- recording --------------------------------------------------------------------------------

def is_refused(name, qmp):
    said = one_line(USERS[name](qmp))
    check((RECORDED in said and STOP_FIRST in said) or SAY_NO.get(name, "?") in said,
          f"{name}: {said}")


def all_are_refused(qmp):
    for name in USERS:
        is_refused(name, qmp)
        check(qmp("query-status")["return"]["running"], f"{name} has stopped the guest")
    qmp("stop")
    check(RECORDED in USERS["devices of Xen"](qmp), "what QEMU refuses if the guest runs")
    qmp("cont")


def all_are_allowed(qmp):
    """One after the other; after a migration the guest is over."""
    check(not is_blocked(qmp), qmp("query-migrate"))
    for name in ("savevm", "snapshot-save", "dirty bits", "loadvm", "snapshot-load"):
        check(USERS[name](qmp) == "", name)
        wait_until(lambda: qmp("query-status")["return"]["running"])
    wait_until(lambda: measured(qmp))
    check(USERS["migrate to a file"](qmp) == "", "migrate")
    wait_until(lambda: migration_is(qmp, "completed"))


@test
def nobody_saves_or_loads_a_guest_that_is_recorded():
    directory = work.place("recorded")
    with guest_with_disk() as qmp:
        check(not refusal(qmp("recorder-start", directory=directory)), "recorder-start")
        time.sleep(0.3)
        all_are_refused(qmp)
        check("dirty-ring is not enabled" in dirty_rate(qmp, "dirty-ring"), "without KVM")
        # This only looks at memory.
        check(dirty_rate(qmp, "page-sampling") == "", "page-sampling")
        wait_until(lambda: measured(qmp))
        check(not refusal(qmp("recorder-checkpoint")), "recorder-checkpoint")
        qmp.event("RECORDER_CHECKPOINT")
        time.sleep(0.3)
        check(status(qmp)["state"] == "recording", "it has ended")
        check(not refusal(qmp("recorder-stop")), "recorder-stop")
        recorded = work.console.read()
        all_are_allowed(qmp)
    for number in range(len(info(directory)["checkpoints"])):
        shown, said = work.replay(directory, "--from", str(number))
        check("replayed identically" in said and shown and shown in recorded, f"{number}: {said}")
    check(number == 1, "a checkpoint is missing")


@test
def nothing_is_recorded_while_others_save():
    directory = work.place("not-yet")

    def cannot_start(word):
        said = one_line(refusal(qmp("recorder-start", directory=directory)))
        check(said.startswith("cannot record now: ") and word in said, said)
        check(not os.path.exists(directory) and not is_blocked(qmp), "it left something behind")

    with guest_with_disk() as qmp:
        qmp("migrate-set-parameters", **{"max-bandwidth": 1 << 16})
        check(migrate(qmp, "exec:cat >/dev/null") == "", "migrate")
        cannot_start("a migration is under way")
        qmp("migrate_cancel")
        wait_until(lambda: migration_is(qmp, "cancelled"))
        check(dirty_rate(qmp, "dirty-bitmap") == "", "dirty-bitmap")
        cannot_start("the dirty rate is being measured")
        wait_until(lambda: measured(qmp))
        # What QEMU has still to clean up when the guest goes on is in nobody's way.
        qmp("stop")
        check(hmp(qmp, "savevm paused") == "", "savevm")
        for _ in range(2):
            check(not refusal(qmp("recorder-start", directory=work.place("not-yet"))),
                  "recorder-start")
            check(is_blocked(qmp), "not blocked")
            qmp("cont")
            time.sleep(0.2)
            check(not refusal(qmp("recorder-stop", pause=True)), "recorder-stop")
            check(not is_blocked(qmp), "still blocked")
    work.replay(directory)


@test
def a_start_that_fails_blocks_nobody():
    """What goes wrong later on the way is in test_faults.py."""
    full = work.place("full")
    os.makedirs(os.path.join(full, "something"))
    with live_guest(work) as guest:
        qmp = guest.connect()
        for directory in (full, "/proc/nothing"):
            check(refusal(qmp("recorder-start", directory=directory)), directory)
            check(not is_blocked(qmp), directory)
        qmp.close()


@test
def what_must_be_migratable_is_recorded_and_replayed():
    """A recording ends, and with it what it blocks."""
    directory = work.place("only-migratable")
    work.record(directory, "--", *stock_command("true"), "-only-migratable")
    work.replay(directory, "--", "-only-migratable")


@test
def a_guest_that_is_still_to_come_is_not_recorded():
    with Qemu("aarch64", "-cpu", "cortex-a72,pmu=off", "-incoming", "defer") as qemu:
        said = one_line(refusal(qemu.qmp("recorder-start", directory=work.place("incoming"))))
        check("cannot record now: the guest is being received" in said, said)


# --- replaying ----------------------------------------------------------------------------------

@work.shared
def replayed():
    directory = work.place("replayed")
    work.record(directory, "--smp", "2", "--run", "forkstorm -t 2 -n 5")
    return directory


def all_are_refused_too(qmp):
    for name in USERS.keys() - {"snapshot-save", "snapshot-load"}:      # there is no disk
        said = one_line(USERS[name](qmp))
        check(REPLAYED in said or SAY_NO.get(name, "?") in said, f"{name}: {said}")


@test
def nobody_saves_or_loads_a_replay():
    path = work.path("qmp")
    process = work.start("replay", replayed(), "--qmp", path, "--until", "0", "--pause-at-end")
    qmp = Qmp(path, process)
    qmp.replay_from_here(replayed())
    wait_until(lambda: status(qmp)["state"] == "replaying")
    all_are_refused_too(qmp)
    check(qmp.event("RECORDER_REPLAYED")["identical"], "it diverged")
    check(not is_blocked(qmp), "still blocked")
    qmp("quit")
    end(process)
    qmp.close()


@test
def nobody_saves_or_loads_what_a_debugger_travels_through():
    path = work.path("qmp")
    session = start_debug(work, replayed(), "--at", "1000000", "--qmp", path)
    qmp = Qmp(path, session.process)
    all_are_refused_too(qmp)
    last = status(qmp)["last-moment"]
    for moment in (last // 2, last // 3):
        check(not refusal(qmp("recorder-goto", at=str(moment))), "recorder-goto")
        before = qmp("query-recorder-digests")
        all_are_refused_too(qmp)
        check(qmp("query-recorder-digests") == before, "it was changed")
    qmp("cont")
    all_are_refused_too(qmp)
    wait_until(lambda: not qmp("query-status")["return"]["running"])
    check(status(qmp)["moment"] == last, status(qmp))
    qmp.close()
    session.end()


main(work)
