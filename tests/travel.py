# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording, a real gdb that goes through it in all directions, and a judge.

What one sees at a moment must not depend on how one came there.  So random excursions write down
what they saw and when (digests of all registers and of all memory), and a replay that knows of no
debugger is asked for the same moments.
"""

import contextlib
import os
import random
import re

import debugging
import recording
from gdb import Gdb
from harness import Qmp, check, run

GDB_SOCKET = os.path.join(recording.TOP, "gdb")
QMP_SOCKET = os.path.join(recording.TOP, "qmp")
FAR = 20                        # steps of one command, at most
EXCLUSIVE = 16                  # instructions from a load-exclusive to its store, at most


def met_an_end(stop):
    """Of the recording; gdb gives no reason then."""
    return "No more reverse-execution history" in stop.said


class Travel:
    """A session of `reprise debug`, with gdb and QMP connected."""

    def __init__(self, directory, *options, vmlinux=None):
        self.process, address = debugging.start_debug(
            directory, "--socket", GDB_SOCKET, "--qmp", QMP_SOCKET, *options)
        self.qmp = Qmp(QMP_SOCKET, self.process)
        self.gdb = Gdb(vmlinux)
        if not vmlinux:
            self.gdb.command("set architecture aarch64")
        self.gdb.connect(address)
        self.address = address
        told = self.qmp("query-recorder")["return"]
        self.first, self.last = told["first-moment"], told["last-moment"]

    def reconnect(self, vmlinux=None):
        """With another gdb: the one before has died."""
        self.gdb.close()
        self.gdb = Gdb(vmlinux)
        self.gdb.command("set architecture aarch64")
        return self.gdb.connect(self.address)

    def close(self):
        self.gdb.close()
        self.qmp.close()
        debugging.end_debug(self.process)

    def when(self):
        """The moment, and where each vCPU is."""
        said = self.gdb.command("monitor when")
        found = re.search(r"moment (\d+) of (\d+) to (\d+), vCPUs at (\S+)", said)
        check(found, said)
        return int(found.group(1)), [int(at.split(":")[1]) for at in found.group(4).split(",")]

    def monitor(self, command):
        """What it says; first there is a dot for each second that it took."""
        return re.sub(r"^\.+\r?\n", "", self.gdb.command(f"monitor {command}"))

    def moment(self):
        return self.when()[0]

    def refresh(self):
        """gdb has not noticed that the guest is elsewhere."""
        self.gdb.command("maintenance flush register-cache")
        self.gdb.command("maintenance flush dcache")

    def goto(self, at):
        said = self.monitor(f"goto {at}")
        check(said.startswith("moment "), said)
        self.refresh()

    def digests(self):
        return self.qmp("query-recorder-digests")["return"]


@contextlib.contextmanager
def travel(directory, *options, vmlinux=None):
    session = Travel(directory, *options, vmlinux=vmlinux)
    try:
        yield session
    finally:
        session.close()


# --- excursions -------------------------------------------------------------------------------

class Excursions:
    """Random ones; `seen` has what was seen at which moment."""

    def __init__(self, session, seed):
        self.session, self.gdb = session, session.gdb
        self.random = random.Random(seed)
        self.seen = {}

    def _look(self, what):
        moment, digests = self.session.moment(), self.session.digests()
        before = self.seen.setdefault(moment, (digests, what))
        check(before[0] == digests,
              f"moment {moment}: {digests} after {what}, but {before[0]} after {before[1]}")

    def _choose_thread(self):
        threads = sorted(self.gdb.threads())
        self.gdb.command(f"thread {self.random.choice(threads)}")

    def _goto(self):
        self.session.goto(self.random.randrange(self.session.first, self.session.last + 1))

    def _step(self, command):
        self._choose_thread()
        self.gdb.go(f"{command} {self.random.randrange(1, FAR)}")

    def _there_and_back(self):
        """Steps; the other way it comes by the same places.

        Forwards, gdb makes one step of a load-exclusive and all up to its store.
        """
        self._choose_thread()
        places = []
        for _ in range(self.random.randrange(2, FAR // 2)):
            stop = self.gdb.go("stepi")
            if met_an_end(stop):
                return
            places.append(stop.pc)
        for place in reversed(places[:-1]):
            for _ in range(EXCLUSIVE):
                stop = self.gdb.go("reverse-stepi")
                if stop.pc == place:
                    break
            check(stop.pc == place, f"{place:#x} was passed, but not on the way back: {stop}")

    def _break(self):
        """Where some vCPU is now; from elsewhere, in both directions."""
        self._choose_thread()
        pc = self.gdb.value("$pc")
        here = self.session.moment()
        self.session.goto(min(max(here + self.random.randrange(-10**7, 10**7),
                                  self.session.first), self.session.last))
        self.gdb.command(f"{self.random.choice(['break', 'hbreak'])} *{pc}")
        direction = self.random.choice([("continue", "reverse-continue"),
                                        ("reverse-continue", "continue")])
        for command in direction:
            before = self.session.moment()
            stop = self.gdb.go(command)
            after = self.session.moment()
            check(met_an_end(stop) or stop.pc == pc, f"{stop}, not at {pc:#x}")
            check(after >= before if command == "continue" else after <= before,
                  f"{command} from {before} to {after}")
            self._look(command)
        self.gdb.command("delete")

    def go(self):
        kind = self.random.choice(["goto", "stepi", "reverse-stepi", "there and back", "break"])
        if kind == "goto":
            self._goto()
        elif kind == "there and back":
            self._there_and_back()
        elif kind == "break":
            self._break()
        else:
            self._step(kind)
        self._look(kind)


# --- the judge ----------------------------------------------------------------------------------

def straight(directory, moments):
    """Yields what a plain replay has at each of these moments: from a checkpoint, up to there."""
    process, qmp = None, None
    for moment in sorted(moments):
        if not process:
            process = recording.start("replay", directory, "--until", str(moment), "--qmp",
                                      QMP_SOCKET, "--pause-at-end")
            qmp = Qmp(QMP_SOCKET, process)
        else:
            qmp("recorder-replay", directory=directory, until=moment)
        ended = qmp.event("RECORDER_REPLAYED")
        check(ended["identical"], ended)
        yield moment, qmp("query-recorder-digests")["return"]
    if process:
        qmp("quit")
        recording.end(process)
        qmp.close()


def judge(directory, seen):
    """All that was seen is what a plain replay sees."""
    for moment, digests in straight(directory, seen):
        check(digests == seen[moment][0],
              f"moment {moment}, after {seen[moment][1]}: {seen[moment][0]}, but plain: {digests}")


def last_moment(directory):
    beyond = run(recording.REPRISE, "info", "--at", str(1 << 63), directory, status=2).stderr
    return int(re.search(r"its last at (\d+)$", beyond).group(1))
