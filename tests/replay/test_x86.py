# SPDX-License-Identifier: GPL-2.0-or-later
"""x86_64 guests: what Linux does not do, or not often enough, and Linux."""

import os
import re

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, check_race, stock_command
from tests.lib.process import run
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, info, need

work = GuestWorkspace()
SEVERAL = ["start", "deliveries", "ipis", "user", "rep", "flags", "several-accesses", "edges",
           "strings", "cross-code", "starts", "interrupts"]
SAID = ["rep", "rep-faults", "exceptions", "flags", "bases", "stale", "own-code", "code-across",
        "user", "inputs", "priority", "strings", "float", "accesses", "undefined", "halts",
        "waits", "tables", "a20", "rom", "interrupts"]
CACHES = ("x-tlb-bits=6", "x-tlb-bits=14", "one-insn-per-tb=on")


def record_bare(*options, **machine):
    need("x86_64")
    directory = work.place("bare-x86")
    output, _ = work.record(directory, "--digest-interval", "1000", *options,
                            *bare_guest.x86_command(BIN, bare_guest.build_x86(work, "one.c"),
                                                    **machine))
    bare_guest.check_console(output.decode(), SAID)
    return directory, output


@test_each(["q35 max", "pc qemu64", "q35 Nehalem,rdrand=on,sse4.2=off,vendor=AuthenticAMD"])
def a_bare_guest_replays_identically(how):
    machine, cpu = how.split()
    directory, output = record_bare(machine=machine, cpu=cpu)
    for cache in CACHES:
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")
    work.check_replay(directory, output, "--threads", "single")


@test
def a_bare_guest_replays_from_its_checkpoints():
    directory, output = record_bare("--checkpoint-interval", "0.02", "--chaos", "3")
    work.check_checkpoints(directory, output, 3)


SAVED, FSAVED = 0x800000 + 24 * 4096, 0x800000 + 26 * 4096 - 50         # of one.c


@test_each(["fxsave", "fnsave"])
def stores_of_save_areas_can_be_watched(instruction):
    """They go through host pointers, or around them where an element lies in two pages."""
    directory, _ = record_bare()
    address, size, least = {"fxsave": (SAVED, 512, 24 + 8 * 10 + 16 * 16),
                            "fnsave": (FSAVED, 108, 108)}[instruction]
    shown, said = work.replay(directory, "--watch", f"{address:#x},{size},writes")
    check("replayed identically" in said, said)
    stores = re.findall(r"^0:(\d+) store 0x(\w+),(\d+) pc 0x\w+ ", shown.decode(), re.M)
    check(len({position for position, _, _ in stores}) == 1, shown.decode())
    seen = [byte for _, at, n in stores for byte in range(int(at, 16), int(at, 16) + int(n))]
    check(min(seen) == address and least <= len(seen) == len(set(seen)), shown.decode())


WORD = 0x800000 + 28 * 4096
# Of one.c: steps after the first, by, before, after (None: a read).
TO_WORD = [(0, "store", 0, 1), (1, "load", 1, None), (2, "load", 1, None), (2, "store", 1, 3),
           (3, "atomic", 3, 5), (4, "atomic", 5, 1), (5, "atomic", 1, None), (6, "load", 1, None),
           (6, "store", 1, 3), (8, "store", 3, 1)]


@test
def accesses_are_told_by_their_kind():
    """Of one vCPU, QEMU makes all that change memory by a load and a store."""
    directory, _ = record_bare()
    shown, said = work.replay(directory, "--watch", f"{WORD:#x},8")
    check("replayed identically" in said, said)
    told = re.findall(r"^0:(\d+) (\S+) 0x\w+,8 pc 0x\w+ 0x(\w+)(?: -> 0x(\w+))?$",
                      shown.decode(), re.M)
    check(len(told) == len(shown.splitlines()) == len(TO_WORD), shown.decode())
    for (position, by, before, after), expected in zip(told, TO_WORD):
        seen = (int(position) - int(told[0][0]), by, int(before, 16),
                int(after, 16) if after else None)
        check(seen == expected, f"{seen}, not {expected}:\n{shown.decode()}")


ROM, LOADS = 0xf8000, 8         # of one.c: a word, and how often it is loaded


@test
def stores_to_rom_are_not_told():
    """They are discarded.  At power-on, main memory is not there yet."""
    directory, _ = record_bare("--checkpoint-interval", "0.02", "--chaos", "3")
    middle = len(info(directory)["checkpoints"]) // 2
    shown, said = work.replay(directory, "--from", str(middle), "--watch", f"{ROM:#x},8")
    check("replayed identically" in said, said)
    told = shown.decode().splitlines()
    check(len(told) == LOADS and not any("->" in line for line in told), shown.decode())


@test
def copies_of_memory_are_coherent_at_every_boundary():
    directory, output = record_bare()
    shown, said = work.replay(directory, "--paranoid=1")
    check("replayed identically" in said and "are coherent" in said, said)
    check(shown == output, f"recorded:\n{output}\nreplayed:\n{shown}")


def record_several(smp, *options, **machine):
    need("x86_64")
    directory = work.place("several-x86")
    kernel = bare_guest.build_x86(work, "several.c", smp - 1)
    output, _ = work.record(directory, "--digest-interval", "1000", *options,
                            *bare_guest.x86_command(BIN, kernel, smp=smp, **machine))
    bare_guest.check_console(output.decode(), SEVERAL)
    check_race(directory)
    return directory, output


SEVERAL_WAYS = {
    "2": (2, [], {}),
    "4": (4, [], {}),
    "2 qemu64 on pc": (2, [], {"cpu": "qemu64", "machine": "pc"}),
    "3 with chaos": (3, ["--chaos", "5"], {}),
    "2, slow path": (2, ["--slow-path"], {}),
    "3, all orders": (3, ["--order", "fdr,karma,rerun"], {}),
}


@test_each(SEVERAL_WAYS)
def vcpus_that_disturb_each_other_replay_identically(how):
    smp, options, machine = SEVERAL_WAYS[how]
    directory, output = record_several(smp, *options, **machine)
    for cache in CACHES:
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")
    work.check_replay(directory, output, "--threads", "single")
    if "all orders" in how:
        for order in ("karma", "rerun"):
            work.check_replay(directory, output, "--order", order)


REPEATS = {
    "1": (1, []),
    "3": (3, []),
    "3, karma with chaos": (3, ["--order", "fdr,karma", "--chaos", "6"]),
    "2, slow path": (2, ["--slow-path"]),
}


@test_each(REPEATS)
def repeated_instructions_do_what_single_ones_do(how):
    """Recorded and replayed, many iterations at once or one by one."""
    need("x86_64")
    smp, options = REPEATS[how]
    directory = work.place("repeats-x86")
    kernel = bare_guest.build_x86(work, "repeats.c", smp - 1)
    output, _ = work.record(directory, "--digest-interval", "1000", "--checkpoint-interval", "0.1",
                            *options, *bare_guest.x86_command(BIN, kernel, smp=smp))
    bare_guest.check_console(output.decode(), ["alone", "disturbed", "taken", "interrupts"])
    work.check_replay(directory, output, "--", "-accel", "tcg,thread=multi,one-insn-per-tb=on")
    shown, said = work.replay(directory, "--watch", "0x821000,64,writes")
    check("replayed identically" in said and shown.count(b" store ") > 100, said)
    work.check_checkpoints(directory, output, 2)
    if "karma" in how:
        work.check_replay(directory, output, "--order", "karma")


@test
def vcpus_that_disturb_each_other_replay_from_checkpoints():
    directory, output = record_several(3, "--checkpoint-interval", "0.1", "--chaos", "4",
                                       "--order", "fdr,karma,rerun")
    work.check_checkpoints(directory, output, 3)


@test
def copies_of_disturbed_memory_are_coherent():
    directory, _ = record_several(2)
    _, said = work.replay(directory, "--paranoid=20")
    check("replayed identically" in said and "are coherent" in said, said)


@work.shared
def linux(smp):
    """From power-on to the end, with checkpoints: directory, console output."""
    need("x86_64")
    directory = work.place(f"linux-x86-{smp}")
    output, _ = work.record(directory, "--arch", "x86_64", "--smp", str(smp),
                            "--checkpoint-interval", "2", "--run",
                            "forkstorm -t 2 -n 4 && pipes -t 2 -n 200 && racey -t 2 && uname -m")
    check(b"x86_64" in output and b"reprise: end status=0" in output, output)
    return directory, output


@test_each([1, 4])
def linux_replays_identically(smp):
    directory, output = linux(smp)
    work.check_replay(directory, output)
    work.check_replay(directory, output, "--threads", "single", "--", "-accel",
                      "tcg,thread=multi,x-tlb-bits=6")


@test_each([1, 4])
def linux_replays_from_its_checkpoints(smp):
    directory, output = linux(smp)
    work.check_checkpoints(directory, output, 2)


@test_each([1, 4])
def copies_of_memory_are_coherent_in_linux(smp):
    directory, _ = linux(smp)
    _, said = work.replay(directory, "--paranoid=50000")
    check("replayed identically" in said and "are coherent" in said, said)


DISK_AND_NETWORK = (
    "sha256sum /dev/vda; mke2fs /dev/vda >/dev/null && mkdir -p /disk && "
    "mount -t ext4 /dev/vda /disk && dd if=/dev/urandom of=/disk/a bs=64k count=16 2>/dev/null && "
    "cp /disk/a /disk/b && sync && echo 3 >/proc/sys/vm/drop_caches && cmp /disk/a /disk/b && "
    "umount /disk && head -c 64 /dev/hwrng >/dev/null && echo there >/dev/hvc0 && "
    "ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ping -c 2 10.0.2.2")
# Machine, and how virtio devices of its bus end.
BUSES = {"PCI of q35": ("q35", "pci"), "MMIO of microvm": ("microvm", "device"),
         "PCI of microvm": ("microvm,pcie=on", "pci")}


@test_each(["PCI of q35, 2", "MMIO of microvm, 1", "MMIO of microvm, 2", "MMIO of microvm, 4",
            "PCI of microvm, 2"])
def devices_are_recorded(how):
    """Disk, network, random numbers and console."""
    bus, smp = how.split(", ")
    machine, suffix = BUSES[bus]
    rom = ",romfile=" if suffix == "pci" else ""
    directory, disk, said = work.place("devices-x86"), work.path("disk"), work.path("said")
    with open(disk, "wb") as file:
        file.write(b"page" * 1024 * 2048)
    output, _ = work.record(
        directory, "--checkpoint-interval", "1", "--", *stock_command(
            DISK_AND_NETWORK, smp=int(smp), arch="x86_64", boot=("--machine", machine)),
        "-drive", f"file={disk},if=none,id=d,format=raw", "-device", f"virtio-blk-{suffix},drive=d",
        "-netdev", "user,id=n", "-device", f"virtio-net-{suffix},netdev=n{rom}",
        "-device", f"virtio-rng-{suffix}", "-device", f"virtio-serial-{suffix}",
        "-chardev", f"file,id=c,path={said}", "-device", "virtconsole,chardev=c")
    os.remove(disk)
    check(b"2 packets received" in output and b"status=0" in output, output)
    with open(said, "rb") as file:
        check(b"there" in file.read(), "the console of virtio")
    work.check_replay(directory, output)
    work.check_checkpoints(directory, output, 2)


@test
def a_32_bit_program_replays_identically():
    directory = work.place("linux-x86-32")
    output, _ = work.record(directory, "--", *stock_command(
        bare_guest.program32(work), smp=2, arch="x86_64"))
    check(b"reprise: end status=0" in output, output)
    work.check_replay(directory, output)


@test_each([1, 2, 4])
def programs_that_watch_others_replay_identically(smp):
    """By data breakpoints, as debuggers do."""
    directory = work.place("linux-x86-watcher")
    watcher = bare_guest.small_program(work, "watcher.c")
    output, _ = work.record(directory, "--checkpoint-interval", "1", "--", *stock_command(
        f"{watcher} 4 && racey -t 2 -n 2000 && /run/p 2", smp=smp, arch="x86_64"))
    check(b"reprise: end status=0" in output, output)
    work.check_replay(directory, output)
    work.check_replay(directory, output, "--", "-accel", "tcg,thread=multi,x-tlb-bits=6")
    work.check_checkpoints(directory, output, 1)


@test_each(["pc", "microvm", "microvm,acpi=off"])
def other_machines_are_recorded(machine):
    """A microvm's firmware runs from main memory: qboot without ACPI, else SeaBIOS."""
    directory = work.place("machines-x86")
    output, _ = work.record(directory, "--checkpoint-interval", "1", "--", *stock_command(
        "racey -t 2 -n 20000 && forkstorm -t 2 -n 2", smp=2, arch="x86_64",
        boot=("--machine", machine)))
    check(b"status=0" in output, output)
    work.check_replay(directory, output)
    work.check_checkpoints(directory, output, 2)


@test
def cpuid_tells_linux_what_clocks_it_has():
    """A microvm with ACPI has nothing to measure them with.  Linux hangs if it does so."""
    directory = work.place("clocks-x86")
    output, _ = work.record(directory, "--", *stock_command(
        "true", smp=2, arch="x86_64",
        boot=("--machine", "microvm", "--append", "apic=verbose loglevel=7")))
    # HZ is 250.
    check(b"lapic timer already calibrated 4000000" in output, output)
    check(b"tsc: Detected 1000.000 MHz" in output, output)
    work.check_replay(directory, output)


@test
def two_replays_leave_the_same_trace():
    directory, _ = linux(4)
    traces = [work.place(f"trace-x86-{n}") for n in (1, 2)]
    for trace, extra in zip(traces, ((), ("--", "-accel", "tcg,thread=multi,x-tlb-bits=7"))):
        work.replay(directory, "--trace", trace, *extra)
    result = run(REPRISE, "compare", *traces)
    check(result.returncode == 0 and "vCPU 0 is the same" in result.stdout, str(result))


main(work)
