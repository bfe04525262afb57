# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of one guest, timed on the host; for tests/bench/run.

All times are the host's, taken when the marks of images/init arrive on the
console: what a guest says about time is itself replayed.  Boot begins when QEMU
says (RESUME, over QMP) that the guest runs, which leaves out its own start and
the loading of a checkpoint.

QEMU's processor time is taken at the same moments.  It says less (nothing of
waiting), but means something on a host that has other work, too.

A command that sets something up before its work, and tears it down after that, says
"bench: begin" and "bench: end" on lines of their own: then these are what its run is.
"""

import json
import os
import re
import select
import shlex
import shutil
import subprocess
import time
from typing import NamedTuple

from tests.bench.host import Refused
from tests.lib.checkout import BUILD, TOP
from tests.lib.qmp import Qmp
from tests.lib.tool import BIN, emulator_of, info, stop_tool

PLACE = os.path.join(BUILD, "bench")
PATIENCE_S = 300                # for one run of one guest, unless --patience says otherwise
QUIT_S = 25                     # a little more than the tool gives its QEMU

MARK = re.compile(rb"^((?:reprise|bench): (?:ready|begin|end))(?: status=(\d+))?[^\n]*\n", re.M)
MARKS = ("reprise: ready", "reprise: begin", "reprise: end")

# Plain guests with the TLBs of recorded ones (docs/guide.md).
GROWING_TLBS = ["-accel", "tcg,thread=multi,x-tlb-grow=on"]

# The tool's options for modes that record, and the order of modes that replay by one.
RECORDED_BY = {"record": [], "record karma": ["--order", "karma"],
               "record both": ["--order", "fdr,karma"],
               "record epochs 200": ["--epochs=200"], "record epochs 50": ["--epochs=50"]}
REPLAYED_BY = {"replay fdr": "fdr", "replay karma": "karma"}


class Failure(Exception):
    """A run that measured nothing, and why."""


class Guest(NamedTuple):
    """What runs, and on what."""
    smp: int
    run: str
    image: str = "stock"
    mem: int = 512                      # MiB
    arguments: tuple = ()               # for QEMU
    arch: str = "aarch64"


class Build:
    """Programs that are measured, and the latest recording that they made."""

    def __init__(self, name, place):
        self.name, self.place = name, place
        self.reprise = os.path.join(place, "reprise")
        self.recording = os.path.join(PLACE, f"recording-{name}")


THIS = Build("this", BIN)


def guest_command(build, guest, *arguments):
    """QEMU's command line; images/boot knows it."""
    done = subprocess.run([f"{TOP}/images/boot", "--print", "--arch", guest.arch,
                           "--image", guest.image, "--smp", str(guest.smp),
                           "--mem", str(guest.mem), "--run", guest.run, "--",
                           *guest.arguments, *arguments], capture_output=True, encoding="utf-8")
    if done.returncode != 0:
        raise Refused(done.stderr.strip())      # there is no such image
    return [os.path.join(build.place, f"qemu-system-{guest.arch}"), *shlex.split(done.stdout)[1:]]


def command_of(build, mode, guest, unpatched):
    qmp = ["-qmp", f"unix:{PLACE}/qmp,server=on,wait=on"]   # no event is missed
    if mode == "replay":
        return [build.reprise, "replay", build.recording, "--", *qmp]
    if mode in REPLAYED_BY:
        return [build.reprise, "replay", build.recording, "--order", REPLAYED_BY[mode], "--", *qmp]
    if mode == "single":
        return [build.reprise, "replay", build.recording, "--threads", "single", "--", *qmp]
    qemu = guest_command(build, guest, *qmp, *(GROWING_TLBS if mode == "plain tlb" else ()))
    if mode in RECORDED_BY:
        return [build.reprise, "record", "-o", build.recording, *RECORDED_BY[mode], "--", *qemu]
    return [unpatched if mode == "unpatched" else qemu[0], *qemu[1:], "-S"]


def time_of(name, qmp):
    """QEMU's own time of the next such event; it and time.time() are the same clock."""
    while True:
        line = qmp.stream.readline()
        if not line:
            raise Failure(f"QEMU ended before {name}")
        message = json.loads(line)
        if "error" in message:
            raise Failure(message["error"]["desc"])
        if message.get("event") == name:
            at = message["timestamp"]
            return at["seconds"] + at["microseconds"] / 1e6


def start_of_execution(qmp):
    """On a busy host the guest may run before QMP has agreed to tell about it."""
    if qmp("query-status")["return"]["running"]:
        return time.time() - qmp("query-recorder")["return"]["seconds"]
    return time_of("RESUME", qmp)


def processor_time(pid):
    """Seconds, of all threads; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (FileNotFoundError, ProcessLookupError):
        return None


def marks_on(stream, patience, at_mark):
    """When each mark arrived, and all the output; ends when QEMU closes it."""
    deadline = time.monotonic() + patience
    output, marks, seen = b"", {}, 0
    while True:
        if not select.select([stream], [], [], max(0, deadline - time.monotonic()))[0]:
            raise Failure(f"hangs: no end in {patience:g} s after "
                          f"{output[-200:].decode(errors='replace')!r}")
        more = os.read(stream.fileno(), 65536)
        now = time.time()
        if not more:
            return marks, output
        output = output + more.replace(b"\r", b"")
        for match in MARK.finditer(output, seen):
            name = match.group(1).decode()
            marks[name] = now
            if match.group(2) not in (None, b"0"):
                raise Failure(f"the guest's command ended with status {match.group(2).decode()}: "
                              f"{output[-400:].decode(errors='replace')!r}")
            seen = match.end()
            at_mark(name)


def tracking_memory(qmp):
    """Bytes that the recorder says its caches and directory take, or None."""
    try:
        return qmp("query-recorder")["return"].get("tracking-memory")
    except (KeyError, OSError, ValueError):     # QEMU may be gone already
        return None


def follow(process, is_record, patience):
    """What one run took: seconds of boot and of the command, on the clock and of processors.

    And what the guest wrote, and how much memory the recorder had at the end.
    """
    qmp = Qmp(f"{PLACE}/qmp", process)
    is_tool = os.path.basename(process.args[0]) == "reprise"
    pid = emulator_of(process) if is_tool else process.pid
    cpu, memory = {}, None

    def at_mark(name):
        nonlocal memory
        cpu[name] = processor_time(pid)
        if name == "reprise: end" and is_record:
            memory = tracking_memory(qmp)

    try:
        qmp.socket.settimeout(patience)
        if is_tool:
            started = start_of_execution(qmp)
        else:
            qmp.commands.write('{"execute": "cont"}')
            qmp.commands.flush()
            started = time_of("RESUME", qmp)
        at_mark("start")
        marks, output = marks_on(process.stdout, patience, at_mark)
    finally:
        qmp.close()
    status = process.wait(patience)
    output = output.decode(errors="replace")
    if status != 0 or any(mark not in marks for mark in MARKS):
        raise Failure(f"status {status}, marks {sorted(marks)}, the console ends with "
                      f"{output[-200:]!r}")
    begin, end = (("bench: begin", "bench: end") if "bench: end" in marks
                  else ("reprise: begin", "reprise: end"))
    return {"boot": marks["reprise: ready"] - started, "run": marks[end] - marks[begin],
            "boot cpu": difference(cpu, "start", "reprise: ready"),
            "run cpu": difference(cpu, begin, end),
            "all cpu": difference(cpu, "start", "reprise: end"),
            "memory": memory, "output": output}


def difference(times, one, other):
    return None if None in (times[one], times[other]) else times[other] - times[one]


def of_recording(build):
    """Its instructions, and bytes of the race log per 1000 of them, before compression."""
    said = info(build.recording, build.reprise)
    instructions = sum(said["instructions"])
    return {"instructions": instructions,
            "race_log": said["log_bytes"]["race"]["raw"] * 1000 / instructions}


def measure(build, mode, guest, unpatched=None, patience=PATIENCE_S):
    """One run: what follow() says, and what of_recording() says if it records.

    Raises Failure, with what the tool or QEMU said.
    """
    if mode in RECORDED_BY:
        shutil.rmtree(build.recording, ignore_errors=True)
    command = command_of(build, mode, guest, unpatched)
    said = os.path.join(PLACE, "stderr")
    with open(said, "wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=errors, start_new_session=True)
    process.stderr = open(said, "r", errors="replace")      # Qmp() reads it
    try:
        took = follow(process, mode == "record", patience)
        return took | of_recording(build) if mode == "record" else took
    except (Failure, AssertionError, OSError, subprocess.SubprocessError) as failure:
        stop_tool(process, QUIT_S)
        with open(said, errors="replace") as errors:
            raise Failure(f"{guest.run}, {guest.smp} vCPUs, {mode}, {build.reprise}: "
                          f"{errors.read().strip()}\n{failure}") from None
    finally:
        stop_tool(process, QUIT_S)
        process.stdout.close()
        process.stderr.close()


def keep_recording(build, name):
    """Where the recording of a run that failed is kept, or None."""
    place = os.path.join(BUILD, f"bench-failed-{name}")
    if not os.path.exists(build.recording):
        return None
    shutil.rmtree(place, ignore_errors=True)
    return shutil.copytree(build.recording, place)


# --- the pause of a running guest -----------------------------------------------------

FILL = ("mount -t tmpfs -o size=440m none /tmp && "
        "dd if=/dev/urandom of=/tmp/fill bs=1M count=400 2>/dev/null && echo 'filled' && "
        "while dd if=/dev/urandom of=/tmp/fill bs=1M count=20 conv=notrunc 2>/dev/null; "
        "do sleep 1; done")


# Writes so many MiB again and again, at intervals.
DIRTY = ("mount -t tmpfs none /tmp && dd if=/dev/zero of=/tmp/dirty bs=1M count=%d 2>/dev/null && "
         "echo 'filled' && while dd if=/dev/zero of=/tmp/dirty bs=1M count=%d conv=notrunc "
         "2>/dev/null; do sleep 0.3; done")
EPOCHS = 40


def pause_of_start(qmp):
    """Seconds for which the guest stands still."""
    shutil.rmtree(THIS.recording, ignore_errors=True)
    json.dump({"execute": "recorder-start", "arguments": {"directory": THIS.recording}},
              qmp.commands)
    qmp.commands.flush()
    pause = -time_of("STOP", qmp) + time_of("RESUME", qmp)
    while "event" in (answer := json.loads(qmp.stream.readline())):
        pass
    if answer != {"return": {}}:
        raise Failure(f"recorder-start: {answer}")
    return pause


def pause_of_checkpoint(qmp):
    """The same for one more checkpoint, and the MiB that had changed."""
    time.sleep(1.5)
    answer = qmp("recorder-checkpoint")
    if "return" not in answer:
        raise Failure(f"recorder-checkpoint: {answer}")
    made = qmp.event("RECORDER_CHECKPOINT")
    return made["pause"], made["bytes"] / (1 << 20)


def pauses_of_recording(qmp):
    pauses = pause_of_start(qmp), pause_of_checkpoint(qmp)
    if qmp("recorder-stop") != {"return": {}}:
        raise Failure("recorder-stop")
    return pauses


def pauses_of_epochs(qmp, mib):
    """Seconds of those epochs in which about so much has changed."""
    shutil.rmtree(THIS.recording, ignore_errors=True)
    answer = qmp("recorder-start", directory=THIS.recording, epochs=300)
    if "return" not in answer:
        raise Failure(f"recorder-start: {answer}")
    epochs = [qmp.event("RECORDER_EPOCH") for _ in range(EPOCHS)]
    if qmp("recorder-stop") != {"return": {}}:
        raise Failure("recorder-stop")
    return [epoch["pause"] for epoch in epochs[1:]
            if mib / 2 < epoch["bytes"] / (1 << 20) < mib * 2]


def with_filled(fill, function):
    """Call it with the QMP of a guest that has said "filled"."""
    process = subprocess.Popen([*guest_command(THIS, Guest(1, fill)), "-qmp",
                                f"unix:{PLACE}/qmp,server=on,wait=on"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True)
    try:
        qmp = Qmp(f"{PLACE}/qmp", process)
        for line in process.stdout:
            if line.startswith("filled"):
                result = function(qmp)
                qmp.close()
                return result
        raise Failure("the guest ended before its memory was full")
    finally:
        stop_tool(process, QUIT_S)
        process.stdout.close()
        process.stderr.close()


def measure_pauses(rounds):
    """Of a running guest, when its recording starts, and when a checkpoint is made later."""
    return with_filled(FILL, lambda qmp: [pauses_of_recording(qmp) for _ in range(rounds)])


def measure_epochs(mib):
    """Of a guest in which about so much changes in each epoch."""
    return with_filled(DIRTY % (mib, mib), lambda qmp: pauses_of_epochs(qmp, mib))
