# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests with GICv3 and its ITS: both keep tables in the guest's memory, and write to them."""

import os
import re

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, check_race, stock_command
from tests.lib.live_guest import live_guest, record_while
from tests.lib.process import run
from tests.lib.tap import check, main, test, test_each
from tests.lib.time_travel import ACCESS, MEM_MIB, judge, travel, wander
from tests.lib.tool import BIN, REPRISE, info

work = GuestWorkspace()
EXCURSIONS = 4
PENDING = 0x42000400            # in bare/lpis.c: the bits of the LPIs that vCPU 0 takes

# Interrupts come from each device, are moved to other vCPUs, and leave a vCPU that goes offline.
USE_DEVICES = (
    "ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; "
    "(dd if=/dev/urandom of=/dev/vda bs=64k count=32 2>/dev/null; sync; "
    "echo 3 >/proc/sys/vm/drop_caches; md5sum /dev/vda) & "
    "(dd if=/dev/hwrng bs=16 count=100 2>/dev/null | md5sum) & "
    "(ping -q -c 20 -i 0.02 10.0.2.2 | grep packets) & "
    "for i in 1 0 1; do "
    "for irq in $(grep ITS-MSI /proc/interrupts | cut -d: -f1); do "
    "echo $i >/proc/irq/$irq/smp_affinity_list; done 2>/dev/null; "
    "sleep 0.05; echo 0 >/sys/devices/system/cpu/cpu1/online; "
    "sleep 0.05; echo 1 >/sys/devices/system/cpu/cpu1/online; done; "
    "wait; grep ITS-MSI /proc/interrupts")
QUEUES = ("virtio0-req", "virtio1-input", "virtio1-output", "virtio2-input")


def devices(disk):
    """Return QEMU's arguments for an ITS, which is there by default, and devices that use it."""
    with open(disk, "wb") as file:
        file.truncate(4 << 20)
    return ["-machine", "gic-version=3",
            "-drive", f"file={disk},if=none,id=d,format=raw", "-device", "virtio-blk-pci,drive=d",
            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n,romfile=",
            "-device", "virtio-rng-pci"]


def check_interrupts(output):
    """All queues have had interrupts, by the ITS."""
    found = re.findall(r"^ *\d+: +([\d ]+?) +ITS-MSI +\d+ +Edge +(\S+)\r?$",
                       output.decode(errors="replace"), re.M)
    for queue in QUEUES:
        n = sum(int(n) for counts, name in found if name.startswith(queue) for n in counts.split())
        check(n > 0, f"{queue}: no interrupt in\n{output.decode(errors='replace')}")


def check_machine(directory, options):
    said = info(directory)["machine_options"]
    check(said == options, f"{said}, not {options}")


# --- memory that is shared with the controller --------------------------------------------

@work.shared
def raced(smp, cpu="cortex-a72", *options):
    """The recording of a bare guest, and its console."""
    directory = work.place(f"lpis-{smp}-{cpu}{''.join(options)}")
    kernel = bare_guest.build(work, "RACE", "lpis.c")
    output, _ = work.record(directory, "--checkpoint-interval", "0.3", *options,
                            *bare_guest.command(BIN, cpu, smp, kernel, gic=3))
    bare_guest.check_console(output.decode(), ["lpis"])
    if smp > 1:
        check_race(directory)
    return directory, output


@test_each(["1 cortex-a57", "2 cortex-a72"],
           long=["1 cortex-a72", "2 cortex-a57", "2 neoverse-n1"])
def a_guest_that_shares_lines_with_the_controller_replays(what):
    smp, cpu = what.split()
    directory, output = raced(int(smp), cpu)
    check_machine(directory, "gic-version=3,its=on")
    work.check_checkpoints(directory, output, 2)
    work.check_replay(directory, output, "--threads", "single")
    work.check_replay(directory, output, "--", "-accel", "tcg,thread=multi,one-insn-per-tb=on")


@test_each(["karma"], long=["rerun"])
def it_replays_by_another_order(order):
    work.check_checkpoints(*raced(2, "cortex-a72", "--order", order), 2)


@test
def on_the_slow_path_it_replays():
    work.check_replay(*raced(2, "cortex-a72", "--slow-path"))


@test_each([1, 2])
def what_the_controller_wrote_is_part_of_the_past(smp):
    """Going back undoes it, and it is told of as a write of a device."""
    directory, _ = raced(smp)
    with travel(work, directory) as session:
        seen = wander(session, seed=smp, n=EXCURSIONS)
        session.goto("end")
        told = session.monitor(f"last-write -p {PENDING:#x} 4").strip()
        access = ACCESS.fullmatch(told)
        check(access and access[2] == "DMA", told)
        # Before that step it is not there, after it, it is.
        for after in (0, 1):
            session.goto(int(access[1]) + after)
            value = session.qmp("human-monitor-command", **{
                "command-line": f"xp /1bx {access[5]}"})["return"].split()[-1]
            check(int(value, 16) == int(access[8 + after], 16), f"{value}: {told}")
    judge(work, directory, seen)


@test_each([1, 2])
def an_its_that_writes_to_flash_ends_the_recording(smp):
    """No device writes in a replay, but the guest would read flash as memory."""
    kernel = bare_guest.build(work, "FLASH_TABLE", "lpis.c")
    _, line = work.record(work.place("flash"),
                          *bare_guest.command(BIN, "cortex-a72", smp, kernel, gic=3), status=1)
    check("writes to virt.flash0" in line, line)


# --- Linux ---------------------------------------------------------------------------------

@test_each(["2 cortex-a72"], long=["2 cortex-a57", "4 neoverse-n1"])
def message_interrupts_of_linux_replay(what):
    smp, cpu = what.split()
    directory, disk = work.place("linux"), work.path("disk")
    output, _ = work.record(directory, "--checkpoint-interval", "0.5", "--",
                            *stock_command(USE_DEVICES, int(smp)), "-cpu", cpu, *devices(disk))
    os.remove(disk)
    check(b"reprise: end status=0" in output, output)
    check_interrupts(output)
    check_machine(directory, "gic-version=3,its=on")
    run(REPRISE, "verify", directory)
    work.check_checkpoints(directory, output, 3)


@test
def going_back_past_message_interrupts_comes_to_where_a_replay_is():
    directory, disk = work.place("past"), work.path("disk")
    output, _ = work.record(directory, "--checkpoint-interval", "0.6", "--",
                            *stock_command(USE_DEVICES, 2, boot=("--mem", str(MEM_MIB))),
                            *devices(disk))
    os.remove(disk)
    check_interrupts(output)
    with travel(work, directory) as session:
        seen = wander(session, seed=7, n=EXCURSIONS)
    judge(work, directory, seen)


@test
def a_guest_whose_its_is_in_use_is_recorded():
    """The recording starts when the tables are set up, and ends while interrupts come."""
    directory, disk = work.place("live"), work.path("disk")
    with live_guest(work, f"while :; do {USE_DEVICES}; echo again; done",
                    arguments=devices(disk)) as guest:
        work.console.wait_for(b"again", guest.process)
        output = record_while(work, guest, directory, b"again", checkpoints=2)
    os.remove(disk)
    check_interrupts(output)
    work.check_checkpoints(directory, output, 3)


@test
def sixteen_vcpus_need_no_option():
    """More than GICv2 has: the stock guest gets a GICv3, and that has an ITS."""
    directory, disk = work.place("many"), work.path("disk")
    output, _ = work.record(directory, "--", *stock_command(USE_DEVICES, 16), *devices(disk))
    os.remove(disk)
    check_interrupts(output)
    work.check_replay(directory, output)
    output, _ = work.record(work.place("stock"), "--smp", "16", "--run", "racey -t 16 -n 2000")
    check(b"reprise: end status=0" in output, output)
    check_machine(work.path("stock"), "gic-version=3,its=on")
    work.check_replay(work.path("stock"), output)


@test_each(["gic-version=3,its=off", "gic-version=2,its=off"])
def without_an_its_the_machine_says_so(options):
    """As all recordings did that were made before an ITS could be recorded."""
    directory = work.place("without")
    gic = options if "3" in options else "gic-version=2"
    output, _ = work.record(directory, "--", *stock_command("forkstorm -n 2"), "-machine", gic)
    check_machine(directory, options)
    work.check_replay(directory, output)


main(work)
