# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest recorded with parameters that chance decides, and replayed from everywhere.

A seed decides what the guest runs, on which CPU and with which TLBs, and (`reprise record --chaos`,
see docs/develop.md) what the recorder does with it; but not how the vCPUs run past each other.
Then the recording is replayed: whole, and from every checkpoint, to the end or for a while.
Registers and memory must be as they were.

    python3 -m tests.lib.chaos SEED [DIR]

does that by hand.  DIR, a new directory, is where the recording and what belongs to it stay.

A guest that has booted is kept, as QEMU migrates it: most recordings begin there, and so take a
second or two.
"""

import contextlib
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

from tests.lib.checkout import BUILD, TOP
from tests.lib.process import backtraces, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check
from tests.lib.tool import BIN, REPRISE, emulator_of, info, stop_tool

SMP = 4
MEMORY_MIB = 128
PATIENCE_S = 180
QUIT_S = 10
QEMU = os.path.join(BIN, "qemu-system-aarch64")
# What a guest that has booted waits for.
WAIT_FOR_LINE = 'read -r line < /dev/console; eval "$line"'

# Rounds that take some tenths of a second when nothing is drawn.
ROUNDS = {
    "counters": 2, "faults": 1, "forkstorm": 4, "handoff": 500, "locks": 6000,
    "logbook": 8000, "pipes": 20, "private": 1, "racey": 30000, "remap": 8, "signals": 2,
    "syscalls": 6,
}
# Draws that make it slow must not make it long: so much of a processor, or of time, and it is over.
MOST_CPU_S, MOST_S = 1, 6
SMALL_LEGS = 6          # in a test that must be short; elsewhere each checkpoint has one
TRIES = 3               # of a leg that fails: does it always, and in the same way?
SHORT = 8               # so many times fewer, for one instruction per block


class Draw:
    """What a seed decides."""

    def __init__(self, seed, small=False):
        self.seed, self.random = seed, random.Random(f"chaos {seed}")
        self.most_legs = SMALL_LEGS if small else None
        self.cpu = self.random.choice(["cortex-a72", "cortex-a76"])
        self.one_insn = not small and self.random.random() < 0.1
        self.power_on = not small and not self.one_insn and self.random.random() < 0.04
        self.slow_path = self.random.random() < 0.15
        self.recorded_tlb, self.replayed_tlb, self.other_tlb = (
            self.random.choice([None, 6, 12]) for _ in range(3))
        self.paranoid = self.random.choice([200, 2000, 20000, 200000])
        self.digest_interval = self.random.choice([2000, 20000, 1000000])
        self.interval = self.random.choice([0.05, 0.1]) * (4 if self.power_on or small else 1)
        self.run = self._programs(small)
        # A PMU is of use to one program only, and costs time at each exception.
        counts = "counters" in self.run or self.random.random() < 0.2
        self.cpu += ",pmu=on" if counts else ",pmu=off"

    def _programs(self, small):
        names = self.random.sample(sorted(ROUNDS), 1 if small else self.random.choice([1, 1, 2]))
        fewer = SHORT if self.one_insn else 4 if small else 1
        lines = [f"{name} -t {SMP} -n {max(1, ROUNDS[name] // len(names) // fewer)}"
                 for name in names]
        return " & ".join(lines) + (" && wait $!" if len(lines) > 1 else "")

    def accelerator(self, tlb, one_insn=False):
        """QEMU's arguments."""
        return ["-accel", "tcg,thread=multi" + (f",x-tlb-bits={tlb}" if tlb else "") +
                (",one-insn-per-tb=on" if one_insn else "")]

    def replay_seed(self):
        """Of one replay: often none, since evictions also take what should not be there."""
        return self.random.choice([0, self.random.randrange(1, 1 << 32)])

    def __str__(self):
        words = [self.run, self.cpu, "from power-on" if self.power_on else "",
                 "--slow-path" if self.slow_path else "",
                 "one-insn-per-tb" if self.one_insn else "",
                 f"TLB bits {self.recorded_tlb}, {self.replayed_tlb}, {self.other_tlb}",
                 f"--paranoid={self.paranoid}"]
        return "; ".join(word for word in words if word)


# --- processes ------------------------------------------------------------------------------

class Process:
    """A tool or a QEMU that answers QMP; a hang is looked at before it is ended."""

    def __init__(self, command, name, console="console", stdin=subprocess.DEVNULL):
        self.name, self.said_in, self.socket = name, f"{name}.said", f"{name}.qmp"
        with open(f"{name}.{console}", "wb") as shown, open(self.said_in, "wb") as said:
            self.process = subprocess.Popen(command, stdin=stdin, stdout=shown, stderr=said,
                                            start_new_session=True)
        self.process.stderr = open(self.said_in, errors="replace")      # Qmp() reads it

    def said(self):
        with open(self.said_in, errors="replace") as file:
            return file.read().strip()

    def hangs(self):
        """Never returns; the state of the recorder, and where all threads are, go into a file."""
        pid = emulator_of(self.process) or self.process.pid
        os.kill(pid, signal.SIGUSR1)
        time.sleep(1)
        with open(f"{self.name}.log", "a") as file:
            print(self.said(), backtraces(pid), sep="\n", file=file)
        raise AssertionError(f"it hangs; {self.name}.log says where")

    def connect(self):
        qmp = Qmp(self.socket, self.process)
        qmp.socket.settimeout(PATIENCE_S)
        return qmp

    def wait(self, status=0):
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.hangs()
        check(self.process.returncode == status,
              f"status {self.process.returncode}, not {status}: {self.said()}")

    def close(self):
        stop_tool(self.process, QUIT_S)
        self.process.stderr.close()
        for path in (self.said_in, self.socket):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


@contextlib.contextmanager
def running(*arguments):
    process = Process(*arguments)
    try:
        yield process
    finally:
        process.close()


# --- a guest that has booted -------------------------------------------------------------------

def guest_command(name, line, *arguments):
    """QEMU's command line, with a QMP socket."""
    printed = run(f"{TOP}/images/boot", "--print", "--arch", "aarch64", "--smp", str(SMP),
                  "--mem", str(MEMORY_MIB), "--run", line, "--",
                  "-qmp", f"unix:{name}.qmp,server=on,wait=off", *arguments).stdout
    return shlex.split(printed)


def wait_until(condition, process):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        check(process.process.poll() is None, process.said())
        if time.monotonic() > deadline:
            process.hangs()
        time.sleep(0.01)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def has_booted(console):
    with open(console, "rb") as file:
        return b"reprise: begin" in file.read()


def boot(cpu, path):
    """Boots a guest, and migrates it to a file as soon as it waits for a line."""
    name = f"{path}.{os.getpid()}"
    with running(guest_command(name, WAIT_FOR_LINE, "-cpu", cpu), name) as process:
        qmp = process.connect()
        wait_until(lambda: has_booted(f"{name}.console"), process)
        time.sleep(0.5)
        qmp("stop")
        qmp("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        qmp("migrate", uri=f"file:{name}")
        wait_until(lambda: qmp("query-migrate")["return"].get("status") == "completed", process)
        qmp("quit")
        process.wait()
        qmp.close()
    os.unlink(f"{name}.console")
    os.replace(name, path)


def booted(cpu, place):
    """The file that has it: kept, unless QEMU or the image are newer."""
    path = os.path.join(place, "booted-" + re.sub("[,=]", "-", cpu))
    made_of = [QEMU] + [f"{BUILD}/images/stock/aarch64/{name}" for name in ("kernel", "initrd")]
    if not os.path.exists(path) or any(os.path.getmtime(file) > os.path.getmtime(path)
                                       for file in made_of):
        boot(cpu, path)
    return path


# --- recording ------------------------------------------------------------------------------------

def is_getting_on(qmp):
    """Not all vCPUs wait for each other."""
    before, deadline = qmp("query-recorder")["return"]["point"], time.monotonic() + 10
    while qmp("query-recorder")["return"]["point"] == before:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def end_of_recording(process, qmp):
    """Waits for it, but not for ever; the event that tells of it."""
    deadline = time.monotonic() + MOST_S
    try:
        while cpu_seconds(process.process.pid) < MOST_CPU_S and time.monotonic() < deadline:
            time.sleep(0.05)
            qmp("query-status")
        if not is_getting_on(qmp):
            process.hangs()
        qmp("recorder-stop", pause=True)
        qmp("quit")
    except ConnectionError:
        pass                    # it has ended by itself
    except TimeoutError:
        process.hangs()
    try:
        return qmp.event("RECORDER_STOPPED")
    except ConnectionError:
        raise AssertionError(f"QEMU ended: {process.said()}") from None


def record(draw, directory, place):
    """Its console output is in a file beside it."""
    arguments = ["-S", "-cpu", draw.cpu,
                 *draw.accelerator(draw.recorded_tlb, draw.one_insn)]
    if not draw.power_on:
        arguments += ["-incoming", f"file:{booted(draw.cpu, place)}"]
    command = guest_command(directory, draw.run if draw.power_on else WAIT_FOR_LINE, *arguments)
    with running(command, directory, "console", subprocess.PIPE) as process:
        qmp = process.connect()
        wait_until(lambda: qmp("query-status")["return"]["status"] != "inmigrate", process)
        answer = qmp("recorder-start", directory=directory,
                     **{"x-chaos": draw.seed, "checkpoint-interval": draw.interval,
                        "slow-path": draw.slow_path, "digest-interval": draw.digest_interval})
        check("error" not in answer, answer)
        chaos = qmp("query-recorder")["return"].get("x-chaos", "no seed")
        qmp("cont")
        process.process.stdin.write(b"" if draw.power_on else draw.run.encode() + b"\n")
        process.process.stdin.flush()
        ended = end_of_recording(process, qmp)
        process.wait()
        process.process.stdin.close()
        qmp.close()
    check(ended["complete"] and ended["reason"] in ("guest-shutdown", "stopped"), ended)
    with open(f"{directory}.console", "rb") as file:
        output = file.read()
    check(ended["reason"] == "stopped" or
          re.search(rb"^reprise: end status=0\r?$", output, re.M), f"the guest failed: {output}")
    return chaos


# --- replaying ------------------------------------------------------------------------------

def replay_command(directory, *options, arguments=()):
    return [REPRISE, "replay", directory, *map(str, options), *(["--"] if arguments else []),
            *arguments]


def replay_whole(directory, *options, arguments=()):
    """By the tool; the console shows what it showed."""
    command = replay_command(directory, *options, arguments=arguments)
    try:
        with running(command, directory, "replayed") as process:
            process.wait()
        with open(f"{directory}.console", "rb") as one, open(f"{directory}.replayed",
                                                             "rb") as other:
            check(one.read() == other.read(), f"diff {directory}.console {directory}.replayed")
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{shlex.join(command)}") from None


def moments(directory):
    """Of all checkpoints."""
    told = info(directory)
    found = []
    for name, point in zip(told["checkpoints"], told["checkpoint_points"]):
        steps = sum(int(at.split(":")[1]) for at in point.split(","))
        place = os.path.join(directory, name, "place")
        if os.path.exists(place):       # the first has none
            with open(place) as file:
                steps += int(re.search(r"^dma (\d+)$", file.read(), re.M).group(1))
        found.append(steps)
    return found


class Legs:
    """Many replays by one QEMU, each from a checkpoint on."""

    def __init__(self, directory, process, arguments):
        self.directory, self.process, self.arguments = directory, process, arguments
        self.moments, self.qmp, self.known = moments(directory), process.connect(), {}
        wait_until(lambda: "paused at the end" in process.said(), process)
        self.qmp("query-status")
        self.qmp.events.clear()         # of the replay that it was started with

    def replay(self, **options):
        answer = self.qmp("recorder-replay", directory=self.directory, **options)
        check("error" not in answer, answer)
        try:
            ended = self.qmp.event("RECORDER_REPLAYED")
        except TimeoutError:
            self.process.hangs()
        check(ended["identical"], ended.get("divergence"))

    def digests(self, number):
        """Of registers and memory, as the checkpoint has them."""
        if number not in self.known:
            self.replay(**{"from": number, "until": self.moments[number]})
            self.known[number] = self.qmp("query-recorder-digests")["return"]
        return self.known[number]

    def go(self, first, last, seed, single):
        """From one checkpoint to another, or to the end."""
        options = ["--from", first, *(["--until", self.moments[last]] if last else []),
                   *(["--chaos", seed] if seed else []),
                   *(["--threads", "single"] if single else [])]
        wanted = self.digests(last) if last else None
        until = {"until": self.moments[last]} if last else {}
        failures = []
        while len(failures) < TRIES:
            try:
                self.replay(**{"from": first, "x-chaos": seed,
                               "threads": "single" if single else "parallel"}, **until)
                seen = self.qmp("query-recorder-digests")["return"] if last else None
                check(seen == wanted, f"checkpoint {last}: {wanted}, replayed: {seen}")
                if not failures:
                    return
                failures.append("again: identical")
            except AssertionError as failure:
                failures.append(f"again: {failure}" if failures else str(failure))
        command = replay_command(self.directory, *options, arguments=self.arguments)
        raise AssertionError("\n".join([*failures, shlex.join(command)]))


@contextlib.contextmanager
def legs(directory, arguments=()):
    command = replay_command(directory, "--qmp", f"{directory}.qmp", "--pause-at-end", "--until", 0,
                             arguments=arguments)
    with running(command, directory, "replayed") as process:
        made = Legs(directory, process, arguments)
        yield made
        made.qmp("quit")
        made.qmp.close()
        process.wait()


def plan(n, most, chance):
    """(from, to) for each of n checkpoints, or for so many at most; None is the end.

    A translation that should be gone does harm late, so some go to the end, and others far.
    """
    last = n - 1
    to_end = {0, min(1, last), last // 2, max(last - 1, 0), last, chance.randrange(n)}
    others = sorted(set(range(n)) - to_end)
    if most:
        others = sorted(chance.sample(others, min(len(others), max(most - len(to_end), 0))))
    reach = {i: chance.choice([1, 1, 2, max(5, n // 3)]) for i in others}
    return [(i, i + reach[i] if i in reach and i + reach[i] <= last else None)
            for i in sorted({*to_end, *others})]


def replay_from_everywhere(draw, directory):
    arguments = draw.accelerator(draw.replayed_tlb)
    with legs(directory, arguments) as made:
        for first, last in plan(len(made.moments), draw.most_legs, draw.random):
            made.go(first, last, draw.replay_seed(), draw.random.random() < 0.1)
        n = len(made.moments)
    if draw.one_insn and n > 1:
        with legs(directory, draw.accelerator(None, True)) as made:
            first = draw.random.randrange(n - 1)
            made.go(first, first + 1, 0, False)
    return n


def replay_all(draw, directory):
    """Returns the number of checkpoints."""
    seed = draw.replay_seed()
    replay_whole(directory, *(["--chaos", seed] if seed else []),
                 arguments=draw.accelerator(draw.other_tlb))
    replay_whole(directory, f"--paranoid={draw.paranoid}")
    return replay_from_everywhere(draw, directory)


def case(seed, directory, place, small=False):
    """All of it; in words, what was drawn.  Raises AssertionError."""
    draw = Draw(seed, small)
    words = str(draw)
    try:
        words += "; " + record(draw, directory, place)
        n = replay_all(draw, directory)
    except (AssertionError, ConnectionError) as failure:
        raise AssertionError(f"{failure}\ndrawn: {words}") from None
    return f"{n} checkpoints; {words}"


# --- by hand --------------------------------------------------------------------------------

def main():
    place = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="reprise-chaos-")
    os.makedirs(place, exist_ok=True)
    began = time.monotonic()
    try:
        print(case(int(sys.argv[1]), os.path.join(place, "recording"), place))
    except AssertionError as failure:
        sys.exit(str(failure))
    print(f"{time.monotonic() - began:.1f} s; the recording is in {place}")


if __name__ == "__main__":
    main()
