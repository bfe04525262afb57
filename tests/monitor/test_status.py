# SPDX-License-Identifier: GPL-2.0-or-later
"""What goes on: query-recorder and SIGUSR1, while a guest is recorded and replayed."""

import os
import re
import select
import signal
import time

from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.live_guest import BUSY, status
from tests.lib.qmp import Qemu, Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import emulator_of, need

work = GuestWorkspace()
CROWD = "handoff -n 2000; locks -n 2000; pipes -n 200"
STATES = {"running", "safe", "waiting", "halted", "finished"}


def socket():
    return work.path("qmp")


def counters(members):
    return {member["name"]: member["value"] for member in members}


@work.shared
def busy():
    """A recording of some seconds."""
    directory = work.place("busy")
    process = work.start("record", "-o", directory, "--run", BUSY)
    work.console.wait_for(b"reprise: begin", process)
    time.sleep(2)
    process.terminate()
    end(process)
    return directory


def table_from(process, pid):
    """Sends SIGUSR1 and reads the table."""
    os.kill(pid, signal.SIGUSR1)
    text = ""
    while not re.search(r"\n +\d+ +\w+ .*\n.*inputs.*\n", text):
        check(select.select([process.stderr], [], [], 20)[0], f"no table:\n{text}")
        text += os.read(process.stderr.fileno(), 65536).decode()
    return text


def stop_and_quit(process, qmp):
    qmp("recorder-stop", pause=True)
    qmp("quit")
    end(process)
    qmp.close()


@test
def a_recording_shows_where_it_is():
    process = work.start("record", "-o", work.place("shown"), "--qmp", socket(), "--run", BUSY)
    qmp = Qmp(socket(), process)
    work.console.wait_for(b"reprise: begin", process)
    first = status(qmp)
    seen = set()
    for _ in range(50):
        seen.add(status(qmp)["vcpus"][0]["state"])
        time.sleep(0.01)
    later = status(qmp)
    check(first["state"] == "recording" and first["directory"].endswith("/shown"), first)
    check(seen <= STATES and "running" in seen, seen)
    a, b = first["vcpus"][0], later["vcpus"][0]
    check(len(later["vcpus"]) == 1 and b["vcpu"] == 0 and b["position"] > a["position"], later)
    check("next-event" not in b and later["seconds"] > first["seconds"], later)
    for name in ("inputs", "device stores", "interrupts"):
        check(counters(b["statistics"])[name] > counters(a["statistics"])[name] > 0, name)
    check(counters(a["statistics"])["TLBs made larger"] > 0, a)
    check(counters(later["log-bytes"])["input"] > counters(first["log-bytes"])["input"], later)
    qmp("recorder-stop", pause=True)
    off = status(qmp)
    check(off["state"] == "off" and off["vcpus"] == [] and "directory" not in off, off)
    qmp("quit")
    end(process)
    qmp.close()


def check_origins(counts):
    """Each arc has an origin, whether it is merged or not.  The vCPU runs meanwhile."""
    pairs, arcs = ({name.partition(" of ")[2]: value for name, value in counts.items()
                    if name.startswith(what)} for what in ("pairs of ", "arcs of "))
    check(set(pairs) == set(arcs) and len(arcs) == 6, counts)
    logged = counts["arcs"] + counts["arcs merged into others"]
    check(abs(sum(arcs.values()) - logged) <= 2 and counts["arcs"] > 0, counts)
    check(all(arcs[origin] <= pairs[origin] + 1 for origin in set(arcs) - {"passed reservations"}),
          counts)
    check(arcs["taken lines"] > 0 and arcs["offered lines"] > 0, counts)


@test
def two_vcpus_show_what_they_wait_for():
    directory = work.place("two")
    process = work.start("record", "-o", directory, "--smp", "2", "--qmp", socket(),
                         "--run", "while :; do racey -t 2 -n 2000; done")
    qmp = Qmp(socket(), process)
    work.console.wait_for(b"signature", process)
    waits, deadline = set(), time.monotonic() + 60
    while not waits & {"vCPU 0", "vCPU 1"} and time.monotonic() < deadline:
        shown = status(qmp)
        for vcpu in shown["vcpus"]:
            waits |= set(re.findall(r"vCPU \d|DMA|lock", vcpu.get("waits-for", "")))
    check(waits & {"vCPU 0", "vCPU 1"}, waits)
    check([vcpu["vcpu"] for vcpu in shown["vcpus"]] == [0, 1] and shown["tracking-memory"] > 0,
          shown)
    for vcpu in shown["vcpus"]:
        counts = counters(vcpu["statistics"])
        check(all(counts[name] > 0 for name in ("arcs", "misses", "lines asked for", "us waited")),
              counts)
        check(any(name.startswith("waits below ") for name in counts), counts)
        check_origins(counts)
    unasked = [counters(vcpu["statistics"])["lines taken from user mode"]
               for vcpu in shown["vcpus"]]
    check(sum(unasked) > 0, shown)
    stop_and_quit(process, qmp)


@test
def more_vcpus_than_cores_give_way_and_keep_hot_lines():
    # They are for speed alone: if one were lost in guests, nothing else in make check would tell.
    wanted = ("host cores given away", "leases", "leases ended early", "lines offered",
              "offered lines taken", "offers taken back", "pages moved", "migratory lines",
              "migratory lines not written", "granted in mid-step")
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:2])
    try:
        process = work.start("record", "-o", work.place("crowded"), "--smp", "4", "--qmp", socket(),
                             "--run", f"while :; do {CROWD}; done")
    finally:
        os.sched_setaffinity(0, cores)
    qmp = Qmp(socket(), process)
    work.console.wait_for(b"handoff", process)
    totals, deadline = {}, time.monotonic() + 60
    while not all(totals.get(name) for name in wanted) and time.monotonic() < deadline:
        time.sleep(0.1)
        vcpus = [counters(vcpu["statistics"]) for vcpu in status(qmp)["vcpus"]]
        totals = {name: sum(counts[name] for counts in vcpus) for name in wanted}
    check(all(totals.values()), totals)
    stop_and_quit(process, qmp)


@test
def a_replay_shows_what_comes_next():
    process = work.start("replay", busy(), "--qmp", socket())
    qmp = Qmp(socket(), process)
    work.console.wait_for(b"reprise: begin", process)
    while (shown := status(qmp))["state"] == "replaying" and not shown["vcpus"]:
        pass
    vcpu = shown["vcpus"][0]
    check(shown["state"] == "replaying" and shown["directory"] == busy(), shown)
    check(vcpu["next-event"] in ("interrupt", "wake", "digest", "registers", "drop", "end"), vcpu)
    # Of two moments, one may lie a budget behind the other.
    check(vcpu["next-position"] + 65536 > vcpu["position"] > 0, vcpu)
    check(vcpu["state"] in STATES and counters(vcpu["statistics"])["inputs"] > 0, vcpu)
    check(counters(vcpu["statistics"])["TLBs made larger"] > 0, vcpu)
    check("log-bytes" not in shown and "seconds" in shown, shown)
    end(process)
    qmp.close()


@test_each(["QEMU", "the tool"])
def a_signal_prints_a_table(to):
    process = work.start("record", "-o", work.place("signalled"), "--run", BUSY)
    work.console.wait_for(b"reprise: begin", process)
    pid = process.pid if to == "the tool" else emulator_of(process)
    for _ in range(3):
        text = table_from(process, pid)
        check(text.startswith("reprise: recording ") and "DMA at 0" in text, text)
        check(re.search(r"^  log bytes: race \d+, input \d+, dma 0, check \d+$", text, re.M), text)
        check(re.search(r"^ +0  (running|safe|waiting|halted) +\d+ ", text, re.M), text)
        check(all(len(line) < 160 for line in text.splitlines()), text)
    process.terminate()
    end(process)


@test
def a_signal_during_replay_prints_a_table():
    process = work.start("replay", busy())
    work.console.wait_for(b"reprise: begin", process)
    text = table_from(process, emulator_of(process))
    check(text.startswith("reprise: replaying ") and "next event" in text, text)
    check(re.search(r"^ +0  \w+ +\d+  \w+ at \d+ ", text, re.M), text)
    check("replayed identically" in end(process), "it was disturbed")


@test
def a_signal_to_a_qemu_that_does_not_record_does_nothing():
    need("aarch64")
    with Qemu("aarch64", "-cpu", "cortex-a72,pmu=off") as qemu:
        os.kill(qemu.process.pid, signal.SIGUSR1)
        check(status(qemu.qmp)["state"] == "off" and qemu.process.poll() is None, "it minds")
        # Nor is it told later.
        check(qemu.qmp("recorder-start", directory=work.place("late")) == {"return": {}}, "start")
        check(status(qemu.qmp)["state"] == "recording", "not recording")
        qemu.qmp("recorder-stop")
        said = os.read(qemu.process.stderr.fileno(), 65536)     # at least that it waits for us
        check(b"reprise: " not in said, said)


main(work)
