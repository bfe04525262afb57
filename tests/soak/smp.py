# SPDX-License-Identifier: GPL-2.0-or-later
"""The long bars of recording several vCPUs, as cases of the soak.

    smp-racey-01 ... 50     four threads race, each recording replayed, RAM compared
                            byte for byte; smp-racey-signatures: they hardly ever agree
    smp-round1-*, round2-*  boot, every program of tests/guest, hackbench and 20
                            stressors of stress-ng, on four vCPUs
    smp-2vcpus-*, ...       the same with one thing changed, in five recordings
    smp-racey-karma-01 ...  the races with other orders than FDR's, and with three at once
    x86-racey-01 ...        the same for x86_64 guests
    x86-round1-*, ...
"""

import contextlib
import re
import subprocess
from collections import namedtuple

from tests.lib.tool import REPRISE
from tests.soak.cases import (DISK_STRESSORS, GICV3, MAKE_DISK, STRESS_S, STRESSORS, Case,
                              check_stress, disk, image_with, programs, served, stress_command)
from tests.soak.guest import Failure

RACES = 50
RACE = "racey -t 4 -n 1000000"
SIGNATURES = 45                 # so many at least are different
WORKERS = 4
SHORT_S = 2                     # for a stressor that is one of many in a recording
PATIENCE_S = 600                # for a recording, and for a replay

# Senders and receivers over sockets, then over pipes; seconds, on two cores.
HACKBENCH = "hackbench -g 2 -l 20 && hackbench -p -g 2 -l 20"

# options are the tool's, arguments QEMU's, append the kernel's; machine: not the usual one.
Round = namedtuple("Round", "name smp arguments options busy devices append machine arch",
                   defaults=(4, (), (), False, False, "", None, "aarch64"))

ROUNDS = [
    Round("round1"),
    Round("round2"),
    Round("2vcpus", smp=2),
    Round("8vcpus", smp=8),
    Round("gicv3", arguments=GICV3),
    Round("its", arguments=GICV3, devices=True),
    Round("slow", options=("--slow-path",)),
    Round("devices", devices=True),
    Round("load", busy=True),
    Round("epochs", options=("--epochs=50", "--checkpoint-interval", "1"), devices=True),
    Round("karma", options=("--order", "karma")),
    Round("karma-2vcpus", smp=2, options=("--order", "karma")),
    Round("karma-8vcpus", smp=8, options=("--order", "karma")),
    Round("karma-gicv3", arguments=GICV3, options=("--order", "karma")),
    Round("karma-devices", options=("--order", "karma"), devices=True),
]

X86_ROUNDS = [round._replace(arch="x86_64") for round in [
    Round("round1"),
    Round("round2"),
    *(Round(f"{n}vcpus", smp=n) for n in (1, 2, 8, 16)),
    Round("kpti", append="mitigations=auto pti=on"),
    Round("pc", machine="pc"),
    Round("microvm", machine="microvm"),
    Round("microvm-devices", machine="microvm", devices=True),
    Round("max", arguments=("-cpu", "max")),
    Round("slow", options=("--slow-path",)),
    Round("devices", devices=True),
    Round("load", busy=True),
    Round("epochs", options=("--epochs=50", "--checkpoint-interval", "1"), devices=True),
    Round("karma", options=("--order", "karma")),
]]

# Races of each, by name; the names of the orders by which each is replayed.
RACED_ORDERS = {
    "karma": ("karma", ["karma"]),
    "karma1024": ("karma:1024", ["karma"]),
    "rerun": ("rerun", ["rerun"]),
    "orders": ("fdr,karma,rerun", ["fdr", "karma", "rerun"]),
}

# Disk and network are in use until the guest's command has ended.  This fits on
# the kernel's command line, which takes 2048 characters.
TRAFFIC = (
    f"{MAKE_DISK} && ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up || exit; "
    "(while dd if=/dev/urandom of=/disk/a bs=64k count=16 2>/dev/null; "
    "cp /disk/a /disk/b; sync; echo 3 >/proc/sys/vm/drop_caches; "
    "cmp /disk/a /disk/b || echo damaged; [ ! -e /run/end ]; do :; done) & "
    "(while wget -q -O /run/file http://10.0.2.2:%d/file || echo lost; [ ! -e /run/end ]; "
    "do :; done) & "
    "(%s); status=$?; touch /run/end; wait; umount /disk && sha256sum /run/file && exit $status")


# --- one recording ----------------------------------------------------------------------

def virtio(way, kind):
    """QEMU's name of a virtio device.  A microvm has no PCI."""
    return f"virtio-{kind}-device" if way.machine == "microvm" else f"virtio-{kind}-pci"


@contextlib.contextmanager
def traffic(way, run):
    """A command with traffic beside it, and QEMU's arguments."""
    net = virtio(way, "net")
    rom = ",romfile=" if net.endswith("pci") else ""
    with disk(virtio(way, "blk")) as drive, served(bytes(range(256)) * 1024) as port:
        yield (TRAFFIC % (port, run),
               [*drive, "-netdev", "user,id=net", "-device", f"{net}{rom},netdev=net"])


@contextlib.contextmanager
def surroundings(way, run, needs_disk):
    """What the guest is to run, and QEMU's arguments for the devices that it needs."""
    if way.devices:
        with traffic(way, run) as both:
            yield both
    elif needs_disk:
        with disk(virtio(way, "blk")) as drive:
            yield f"{MAKE_DISK} && {run} && umount /disk", drive
    else:
        yield run, []


def cycle(recording, way, run, image="stock", needs_disk=False, ram=False, orders=(None,)):
    """Records it, and replays it by each order; the console's output."""
    recording.patience, recording.arch = PATIENCE_S, way.arch
    with surroundings(way, run, needs_disk) as (command, devices):
        output = recording.record(command, way.smp, image, [*way.arguments, *devices],
                                  way.options, ram, append=way.append, machine=way.machine)
    if way.devices and re.search(rb"^(damaged|lost)", output, re.M):
        raise Failure("data was damaged or lost on its way to the guest")
    for order in orders:
        recording.replay(order=order)
    return output


# --- cases ------------------------------------------------------------------------------

def race(way):
    def function(recording):
        """Returns the signature."""
        output = cycle(recording, way, RACE, ram=True)
        return re.search(rb"signature=(\w+)", output).group(1).decode()
    return function


def race_by(name):
    recorded, replayed = RACED_ORDERS[name]
    way = Round(name, options=("--order", recorded))
    return lambda recording: cycle(recording, way, RACE, ram=True, orders=replayed) and None


def signatures(prefix):
    def function(recording):
        """Of the recordings so far."""
        found = [note for name, note in recording.notes.items()
                 if re.match(rf"{prefix}-racey-\d", name)]
        if len(set(found)) < SIGNATURES:
            raise Failure(f"{len(set(found))} different signatures in {len(found)} recordings, "
                          f"{SIGNATURES} of {RACES} are wanted")
        return f"{len(set(found))} of {len(found)}"
    return function


def plain(way, run, ram=True):
    return lambda recording: cycle(recording, way, run, ram=ram) and None


def hackbench(way):
    return lambda recording: cycle(recording, way, HACKBENCH,
                                   image_with("hackbench", way.arch)) and None


def stress(way, stressors, seconds=STRESS_S):
    """These, one after the other; all of them need a disk, or none does."""
    def function(recording):
        needs_disk = stressors[0] in DISK_STRESSORS
        run = " && ".join(stress_command(name, WORKERS, "/disk" if needs_disk else None, seconds)
                          for name in stressors)
        output = cycle(recording, way, run, image_with("stress", way.arch), needs_disk)
        for name in stressors:
            check_stress(name, output)
    return function


def round_of(way, prefix):
    """The rounds have a recording for each thing; their variants have one for things of a kind."""
    parts = [("boot", plain(way, "true")), ("hackbench", hackbench(way))]
    if way.name.startswith("round"):
        parts += [(name, plain(way, name)) for name in programs()]
        parts += [(f"stress-{name}", stress(way, [name])) for name in STRESSORS + DISK_STRESSORS]
    else:
        parts += [("programs", plain(way, " && ".join(programs()))),
                  ("stress", stress(way, STRESSORS, SHORT_S)),
                  ("disk", stress(way, DISK_STRESSORS, SHORT_S))]
    return [Case(f"{prefix}-{way.name}-{name}", function, way.busy) for name, function in parts]


def slow_path_is_an_option():
    done = subprocess.run([REPRISE, "record", "--help"], stdout=subprocess.PIPE, check=True)
    return b"--slow-path" in done.stdout


def races_and_rounds(prefix, rounds):
    """The first round says how races are recorded."""
    ways = [way for way in rounds if way.name != "slow" or slow_path_is_an_option()]
    cases = [Case(f"{prefix}-racey-{i:02}", race(rounds[0]), False) for i in range(1, RACES + 1)]
    cases += [Case(f"{prefix}-racey-signatures", signatures(prefix), False)]
    return cases + [case for way in ways for case in round_of(way, prefix)]


def smp_cases():
    orders = [Case(f"smp-racey-{name}-{i:02}", race_by(name), False)
              for name in RACED_ORDERS for i in range(1, RACES + 1)]
    return [*races_and_rounds("smp", ROUNDS), *orders, *races_and_rounds("x86", X86_ROUNDS)]
