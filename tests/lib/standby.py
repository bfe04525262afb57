# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest that is protected, its standby, and a client that counts with both."""

import contextlib
import os
import re
import subprocess
import time

from tests.lib.guest_recording import end, stock_command
from tests.lib.process import run, wait_until
from tests.lib.switch import PluggedGuest, Switch
from tests.lib.tap import check
from tests.lib.tool import REPRISE, kill_emulator, need, stop_tool

QUIT_S = 10
SERVER_MAC, CLIENT_MAC = "52:54:00:00:00:01", "52:54:00:00:00:02"
NETWORK = "ip addr add 10.0.2.1/24 dev eth0; ip link set eth0 up; "
SERVES = NETWORK + "counter serve -e 10 7000"
WRITES = ("mkdir /disk; mount -t ext4 /dev/vda /disk; " + NETWORK +
          "counter serve -e 10 -f /disk/journal 7000")
DISK_MIB = 64
ASKS = ("ip addr add 10.0.2.2/24 dev eth0; ip link set eth0 up; "
        "counter ask -w 2 10.0.2.1 7000 %d; echo status $?")
RESULT = re.compile(r"counter: answers=(\d+) first=1 last=(\d+) median_ms=(\S+) longest_ms=(\S+)")


class _Tool:
    """The tool in the background, and what its guest shows."""

    def __init__(self, place, name, *args, stdout=None):
        self.console = os.path.join(place, f"{name}.console")
        with open(self.console, "wb") as console:
            self.process = subprocess.Popen([REPRISE, *args], stdin=subprocess.DEVNULL,
                                            stdout=stdout or console, stderr=subprocess.PIPE,
                                            encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        stop_tool(self.process, QUIT_S)
        self.process.stderr.close()

    def shown(self):
        with open(self.console, "rb") as file:
            return file.read()

    def said(self, status):
        return end(self.process, status)


class Protected(_Tool):
    """`reprise protect` of the stock guest; @place: a directory for sockets and consoles."""

    def __init__(self, place, directory, arch, run_this, *options, smp=1, more=(),
                 stdout=None):
        need(arch)
        self.directory = directory
        self.qmp, self.qmp_of_test = (os.path.join(place, f"{name}.qmp") for name in
                                      ("primary", "test"))
        self.command = stock_command(run_this, smp=smp, arch=arch)
        for path in self.qmp, self.qmp_of_test:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        super().__init__(place, "primary", "protect", "-o", directory, "--qmp", self.qmp, *options,
                         "--", *self.command, *more, "-qmp",
                         f"unix:{self.qmp_of_test},server=on,wait=off", stdout=stdout)
        wait_until("QEMU does not start", lambda: os.path.exists(self.qmp))

    def kill(self):
        kill_emulator(self.process)


class Standby(_Tool):
    """`reprise standby` of that guest, on the same machine, or that of another command."""

    def __init__(self, place, guest, *options, command=None):
        super().__init__(place, "standby", "standby", guest.directory, "--primary", guest.qmp,
                         *options, "--", *(command or guest.command))


STANDBY = ",file.locking=off,format=raw"


def drive(image, arch, options=",format=raw"):
    """QEMU's arguments for a disk; STANDBY: of a standby, while the guest still has it."""
    bus = "pci" if arch == "x86_64" else "device"
    return ["-drive", f"file={image},if=none,id=d{options}",
            "-device", f"virtio-blk-{bus},drive=d"]


class Disk:
    """A disk with a file system for a journal."""

    def __init__(self, place):
        self.image = os.path.join(place, "disk.raw")
        with open(self.image, "wb") as file:
            file.truncate(DISK_MIB << 20)
        run("mke2fs", "-q", "-F", "-t", "ext4", self.image)

    def check(self, answers):
        """The file system is sound once its journal is replayed, and each answer was written down
        once, in order, and none in vain but those that were not asked for any more."""
        run("e2fsck", "-p", self.image, status=(0, 1))
        run("e2fsck", "-f", "-n", self.image)
        counts = run("debugfs", "-R", "cat /journal", self.image).stdout.split()
        check(counts == [str(i) for i in range(1, len(counts) + 1)], f"{counts}")
        check(len(counts) == answers, f"{len(counts)} were written down, {answers} were asked for")
        os.remove(self.image)


class Conversation:
    """Of a client with a guest that is killed, and its standby: what came of it."""

    def __init__(self, place, directory, arch, kill_at, delay, answers, disk=None):
        """Kill the guest so many seconds after it has shown that many answers, a multiple of
        10.  With a disk, it writes down each of them before it answers."""
        with contextlib.ExitStack() as stack:
            switch = stack.enter_context(Switch(place))
            ports = {name: switch.port(name) for name in ("primary", "standby", "client")}
            guest = stack.enter_context(
                Protected(place, directory, arch, WRITES if disk else SERVES,
                          more=[*ports["primary"].arguments(SERVER_MAC),
                                *(drive(disk.image, arch) if disk else ())]))
            standby = stack.enter_context(
                Standby(place, guest,
                        command=[*guest.command, *ports["standby"].arguments(SERVER_MAC),
                                 *(drive(disk.image, arch, STANDBY) if disk else ())]))
            client = stack.enter_context(
                PluggedGuest(place, ports["client"], CLIENT_MAC, arch, ASKS % answers))
            wait_until("nobody is served", lambda: b"count %d\r" % kill_at in guest.shown())
            time.sleep(delay)
            guest.kill()
            killed = time.monotonic()
            client.wait_for(b"\nstatus")
            self.said = "\n".join(client.lines())
            result = RESULT.search(self.said)
            check("\nstatus 0" in self.said and result, self.said)
            check(result[1] == result[2] == str(answers), self.said)
            runs = [run.port for run in switch.runs(SERVER_MAC)]
            check(runs == ["primary", "standby"], f"the server was at {runs}")
            standby.stop()
            if disk:
                disk.check(answers)
            self.median_ms, self.longest_ms = float(result[3]), float(result[4])
            self.silent_s = switch.silence(SERVER_MAC, killed)
