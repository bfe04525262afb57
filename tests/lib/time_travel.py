# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording, a real gdb that goes through it in all directions, and a judge.

What one sees at a moment must not depend on how one came there.  So random excursions write down
what they saw and when (digests of all registers and of all memory), and a replay that knows of no
debugger is asked for the same moments.

    python3 -m tests.lib.time_travel DIR SEED [FIRST [N]]

makes N excursions (1) of that seed in a recording once more, from the first one (0) on.
"""

import contextlib
import random
import re
import sys
import time

from tests.lib.debug_session import start_debug
from tests.lib.gdb import Gdb, symbols
from tests.lib.guest_recording import GuestWorkspace, end, stock_command
from tests.lib.qmp import Qmp
from tests.lib.tap import Skip, check, cleaned_up
from tests.lib.tool import info

MEM_MIB = 128                   # of guests to travel in
FAR = 20                        # steps of one command, at most
NEAR = 10**7                    # steps, from where an excursion begins
PLACES = 5
INTERRUPT_S = 0.3
TRAVEL_S = 300                  # for one command: it may look at all of the recording

# Of the stock kernel: what all vCPUs come to often; variables; where source is stepped, and how.
FUNCTIONS = ["__schedule", "handle_mm_fault", "scheduler_tick", "wake_up_new_task", "futex_wake"]
ENTRIES = {"aarch64": ["el0t_64_sync_handler"],
           "x86_64": ["do_syscall_64", "entry_SYSCALL_64", "exc_page_fault"]}
WATCHED = ["jiffies_64", "total_forks", "nr_threads"]
STEPPED = ["handle_mm_fault", "kernel_clone", "try_to_wake_up", "mm_release"]
WAYS = [["next", "next", "reverse-next"], ["step", "step", "reverse-step"], ["finish"],
        ["finish", "reverse-stepi"], ["next", "finish"], ["stepi 3", "reverse-next", "next"]]
EXCLUSIVE = re.compile(r"\tld(a?x[rp]|l?ar)")
# A line of last-write or who.
ACCESS = re.compile(r"moment (\d+)  (vCPU \d+|DMA) at (\d+)  (\S+) (0x\w+),(\d+)(?:  pc (0x\w+))?"
                    r"  (0x\w+)(?: -> (0x\w+))?(?:  \(line from (vCPU \d+|DMA)\))?")
HIT_REASONS = ("breakpoint-hit", "watchpoint-trigger", "read-watchpoint-trigger",
               "access-watchpoint-trigger")


# What gdb calls these architectures.
GDB_ARCHITECTURES = {"aarch64": "aarch64", "x86_64": "i386:x86-64"}


def record_race(workspace, smp, arch="aarch64"):
    """Record vCPUs that race, fault and are interrupted, with checkpoints; return where."""
    directory = workspace.place(f"travel-{arch}-{smp}")
    workspace.record(directory, "--checkpoint-interval", "0.6", "--", *stock_command(
        f"forkstorm -t {smp} -n 8; racey -t {smp} -n 20000; pipes -t 2 -n 50", smp=smp,
        boot=("--mem", str(MEM_MIB)), arch=arch))
    check(len(info(directory)["checkpoints"]) >= 3, "too few checkpoints")
    return directory


def met_an_end(stop):
    """Of the recording; gdb gives no reason then."""
    return "No more reverse-execution history" in stop.said


class Travel:
    """A session of `reprise debug`, with gdb and QMP connected."""

    def __init__(self, workspace, directory, *options, vmlinux=None):
        qmp = workspace.path("qmp")
        self.arch = info(directory)["arch"]
        self.session = start_debug(workspace, directory, "--socket", workspace.path("gdb"),
                                   "--qmp", qmp, *options)
        self.address = self.session.address
        self.qmp = Qmp(qmp, self.session.process)
        self.gdb = self._new_gdb(vmlinux)
        self.gdb.connect(self.address)
        told = self.qmp("query-recorder")["return"]
        self.first, self.last = told["first-moment"], told["last-moment"]

    def reconnect(self, vmlinux=None):
        """With another gdb: the one before has died."""
        self.gdb.close()
        self.gdb = self._new_gdb(vmlinux)
        return self.gdb.connect(self.address)

    def _new_gdb(self, vmlinux):
        gdb = Gdb(vmlinux)
        if not vmlinux:
            gdb.command(f"set architecture {GDB_ARCHITECTURES[self.arch]}")
        return gdb

    def close(self):
        self.gdb.close()
        self.qmp.close()
        self.session.end()

    def when(self):
        """The moment, and where each vCPU is."""
        said = self.gdb.command("monitor when")
        found = re.search(r"moment (\d+) of (\d+) to (\d+), vCPUs at (\S+)", said)
        check(found, said)
        return int(found.group(1)), [int(at.split(":")[1]) for at in found.group(4).split(",")]

    def monitor(self, command):
        """What it says; first there is a dot for each second that it took."""
        return re.sub(r"^\.+\r?\n", "", self.gdb.command(f"monitor {command}", TRAVEL_S))

    def moment(self):
        return self.when()[0]

    def refresh(self):
        """gdb has not noticed that the guest is elsewhere."""
        self.gdb.command("maintenance flush register-cache")
        self.gdb.command("maintenance flush dcache")

    def goto(self, at):
        said = self.gdb.command(f"monitor goto {at}")
        check(re.match(r"(\.+\s+)?moment ", said), said)     # and nothing of packets that gdb lacks
        self.refresh()

    def digests(self):
        return self.qmp("query-recorder-digests")["return"]


@contextlib.contextmanager
def travel(workspace, directory, *options, vmlinux=None):
    session = Travel(workspace, directory, *options, vmlinux=vmlinux)
    try:
        yield session
    except BaseException:
        with contextlib.suppress(AssertionError, OSError):
            session.close()     # what went wrong first is what matters
        raise
    session.close()


def symbols_if_any(arch="aarch64"):
    with contextlib.suppress(Skip):
        return symbols(arch)


# --- excursions -------------------------------------------------------------------------------

class Excursions:
    """Random ones; `seen` has what was seen at which moment.

    The seed and the number of an excursion decide what it does: it goes to a moment, and makes
    some tours from there.  Those of one seed stay around a few places, so that they come
    across the same moments, and the snapshots there, from both sides.
    """

    def __init__(self, session, seed, kernel=False, first=0):
        self.session, self.gdb, self.seed, self.index = session, session.gdb, seed, first - 1
        self.random = random.Random(seed)
        self.places = [self.random.randrange(session.first, session.last + 1)
                       for _ in range(PLACES)]
        self.tours = [self._step, self._there_and_back, self._break_here]
        if kernel:
            self.tours += [self._break_in_function, self._watch, self._source]
        self.seen = {}
        self.done = []              # by the excursion at hand
        self.n_stops = 0

    # --- what all need ---

    def __str__(self):
        return f"excursion {self.index} of seed {self.seed}: {', '.join(self.done)}"

    def _look(self):
        moment, digests = self.session.moment(), self.session.digests()
        before = self.seen.setdefault(moment, (digests, str(self)))
        check(before[0] == digests,
              f"moment {moment}: {digests}, but {before[0]} after {before[1]}")

    def _command(self, text):
        self.done.append(text)
        return self.gdb.command(text)

    def _go(self, text):
        """The stop, and the moment; backwards is not forwards."""
        self.done.append(text)
        before = self.session.moment()
        stop, after = self.gdb.go(text, TRAVEL_S), self.session.moment()
        self.done[-1] += f" (to {after})"
        self.n_stops += 1
        check(after <= before if text.startswith("reverse") else after >= before,
              f"{text} from {before} to {after}")
        return stop, after

    def _goto(self, moment):
        moment = min(max(moment, self.session.first), self.session.last)
        self.done.append(f"monitor goto {moment}")
        self.session.goto(moment)
        check(self.session.moment() == moment, self.session.when())
        self.n_stops += 1

    def _somewhere(self):
        if self.random.random() < 0.3:
            return self.random.randrange(self.session.first, self.session.last + 1)
        return self.random.choice(self.places) + self.random.randrange(-NEAR, NEAR)

    def _choose_thread(self):
        self._command(f"thread {self.random.choice(sorted(self.gdb.threads()))}")

    # --- tours ---

    def _step(self):
        self._choose_thread()
        command = self.random.choice(["stepi", "reverse-stepi"])
        self._go(f"{command} {self.random.randrange(1, FAR)}")

    def _there_and_back(self):
        """Steps, and as many the other way: that many instructions later it is where it was."""
        self._choose_thread()
        first, _ = self._go("stepi")
        n, most = 0, self.random.randrange(1, FAR)
        # Forwards, gdb by itself makes one step of all from a load-exclusive to its store.
        while n < most and not EXCLUSIVE.search(self.gdb.command("x/i $pc")):
            if met_an_end(self._go("stepi")[0]):
                return
            n += 1
        if n > 0:
            back, _ = self._go(f"reverse-stepi {n}")
            check(back.pc == first.pc, f"came back to {back.pc:#x} instead of {first.pc:#x}")

    def _break_here(self):
        """Where some vCPU is now; from elsewhere, in both directions."""
        self._choose_thread()
        pc = self.gdb.value("$pc")
        self._goto(self.session.moment() + self.random.randrange(-NEAR, NEAR))
        self._command(f"{self.random.choice(['break', 'hbreak'])} *{pc:#x}")
        for command in self.random.sample(["continue", "reverse-continue"], 2):
            stop, _ = self._go(command)
            check(met_an_end(stop) or stop.pc == pc, f"{stop}, not at {pc:#x}")
            self._look()
        self._command("delete")

    def _hits(self, command, most):
        """Of a breakpoint or a watchpoint: (moment, thread, sp); did the recording end first?"""
        found = []
        for _ in range(most):
            stop, moment = self._go(command)
            if met_an_end(stop):
                return found, True
            check(stop.reason in HIT_REASONS, stop)
            found.append((moment, stop.thread, self.gdb.value("$sp")))
        return found, False

    def _break_in_function(self):
        """What is hit on the way back was hit on the way there."""
        self._command(f"{self.random.choice(['break', 'hbreak'])} "
                      f"*{self.random.choice(FUNCTIONS + ENTRIES[self.session.arch])}")
        ways = self.random.sample(["continue", "reverse-continue"], 2)
        there, ended = self._hits(ways[0], self.random.randrange(2, 6))
        self._look()
        # From the end of the recording, the last hit comes again; else one stands there.
        expected = there[::-1] if ended else there[-2::-1]
        back, _ = self._hits(ways[1], len(expected))
        check(back == expected, f"{ways[1]}: {back}, not {expected}")
        self._command("delete")

    def _watch(self):
        """A store is met in both directions: behind it going forwards, before it backwards."""
        kind, name = self.random.choice(["watch", "rwatch", "awatch"]), self.random.choice(WATCHED)
        if not self.gdb.does(f"print {name}"):
            return                  # then any first value is a change, but not so on the way back
        self._command(f"{kind} {name}")
        there, _ = self._hits("continue", self.random.randrange(1, 5))
        self._look()
        back, _ = self._hits("reverse-continue", len(there))
        if kind == "watch":
            expected = [(moment - 1, thread) for moment, thread, _ in there[::-1]]
            check([hit[:2] for hit in back] == expected, f"{back}, not {expected} and their stacks")
        self._command("delete")

    def _source(self):
        """In the kernel's source; stepping stays with its thread."""
        self._command(f"break {self.random.choice(STEPPED)}")
        stop, _ = self._go("continue")
        self._command("delete")
        if met_an_end(stop):
            return
        thread = stop.thread
        for command in self.random.choice(WAYS):
            stop, _ = self._go(command)
            if met_an_end(stop):
                return
            check(stop.thread == thread, f"{command} of thread {thread}: {stop}")
            self._look()

    # --- one of them ---

    @contextlib.contextmanager
    def _one(self):
        self.index += 1
        self.random = random.Random(f"{self.seed} {self.index}")
        self.done = []
        try:
            yield
        except AssertionError as failure:
            raise AssertionError(f"{self}: {failure}") from None

    def go(self):
        with self._one():
            self._goto(self._somewhere())
            for _ in range(self.random.randrange(1, 4)):
                self.random.choice(self.tours)()
            self._look()

    def interrupt(self):
        """On the way to nowhere; the one kind where a seed does not tell where that will be."""
        with self._one():
            way = self.random.choice(["continue", "reverse-continue"])
            middle = (self.session.first + self.session.last) // 2
            began = self.random.randrange(self.session.first, middle)
            began += middle if way.startswith("reverse") else 0
            self._goto(began)
            self._command("hbreak *0x10")
            self.done.append(f"{way} and Ctrl-C")
            self.gdb.start(way)
            time.sleep(self.random.uniform(0, INTERRUPT_S))
            stop = self.gdb.interrupt()
            moment = self.session.moment()
            self.done[-1] += f" (at {moment})"
            check(stop.signal == "SIGINT", stop)
            check(moment >= began if way == "continue" else moment <= began, "the wrong way")
            self.n_stops += 1
            self._look()
            self._command("delete")
            self._step()
            self._look()


# --- the judge ----------------------------------------------------------------------------------

def straight(workspace, directory, moments):
    """Yields what a plain replay has at each of these moments: from a checkpoint, up to there."""
    process, qmp, socket = None, None, workspace.path("qmp")
    for moment in sorted(moments):
        if not process:
            process = workspace.start("replay", directory, "--until", str(moment), "--qmp", socket,
                                      "--pause-at-end")
            qmp = Qmp(socket, process)
        else:
            qmp("recorder-replay", directory=directory, until=moment)
        ended = qmp.replayed()
        check(ended["identical"], ended)
        yield moment, qmp("query-recorder-digests")["return"]
    if process:
        qmp("quit")
        end(process)
        qmp.close()


def wander(session, seed, n):
    """Make so many excursions; return what they saw, for judge()."""
    excursions = Excursions(session, seed=seed)
    for _ in range(n):
        excursions.go()
    return excursions.seen


def judge(workspace, directory, seen):
    """All that was seen is what a plain replay sees."""
    for moment, digests in straight(workspace, directory, seen):
        check(digests == seen[moment][0],
              f"moment {moment}, after {seen[moment][1]}: {seen[moment][0]}, but plain: {digests}")


# --- by hand --------------------------------------------------------------------------------------

def again(workspace, directory, seed, first=0, n=1):
    vmlinux = symbols_if_any(info(directory)["arch"])
    with travel(workspace, directory, vmlinux=vmlinux) as session:
        excursions = Excursions(session, seed, kernel=bool(vmlinux), first=first)
        for _ in range(n):
            excursions.go()
            print(excursions)
    judge(workspace, directory, excursions.seen)


if __name__ == "__main__":
    with GuestWorkspace() as own, cleaned_up():
        again(own, sys.argv[1], *map(int, sys.argv[2:]))
