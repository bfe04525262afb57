# SPDX-License-Identifier: GPL-2.0-or-later
"""x86_64 guests without an operating system: what is hard to record, and what is refused."""

import json
import os
import re

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, need

work = GuestWorkspace()
NARROW = ["flags", "bases", "stale", "faults", "recursion", "instructions", "code-16", "gates",
          "tasks"]
MODES = ["flags", "stale", "recursion", "bases", "registers"]
SAID = {
    "traps": ["split", "absent", "lost", "nested", "nmis", "steps", "points", "gates", "segments",
              "pit", "start", "x2apic", "interrupts"],
    "narrow": [*NARROW, *(f"{name}-pae" for name in [*NARROW[:5], "execution", *NARROW[5:]]),
               "interrupts"],
    "vectors": ["gather", "masks", "wide", "saves", "bounds", "locked", "stacks", "segments",
                "gates", "rep-race", "interrupts"],
    "modes": [*MODES, "narrow-user", *(f"five-{name}" for name in MODES), *MODES, "narrow-user",
              "interrupts"],
    "races": ["poke", "waits", "halts", "strings", "inputs", "nested", "nmis", "tables", "bases",
              "a20", "rom", "real", "interrupts"],
    "bars": ["accesses", "interrupts"],
    "floats": ["x87", "mmx", "sse", "interrupts"],
    "forgotten": ["functions", "last-instruction", "late-registers", "interrupts"],
    "points": ["lengths", "rep", "several", "together", "faults", "pushes", "user", "maps",
               "race", "deliveries", "interrupts"],
}
ENDS = {"traps": "guest-reset", "races": "guest-reset"}     # the others switch the machine off
SMP = {"vectors": 3, "floats": 3, "bars": 3, "races": 3, "points": 3}
CACHES = ("x-tlb-bits=6", "x-tlb-bits=14", "one-insn-per-tb=on")


def record(guest, *options, smp=1, **machine):
    need("x86_64")
    directory = work.place(f"{guest}-x86")
    kernel = bare_guest.build_x86(work, f"{guest}.c", smp - 1)
    output, said = work.record(directory, "--digest-interval", "1000", *options,
                               *bare_guest.x86_command(BIN, kernel, smp=smp, **machine))
    bare_guest.check_console(output.decode(), SAID[guest])
    check(said.endswith(ENDS.get(guest, "guest-shutdown")), said)
    return directory, output


def maps_of(directory):
    """Return the maps of memory in its log, as text."""
    events = map(json.loads, run(REPRISE, "dump", "--json", directory).stdout.splitlines())
    return "".join(bytes.fromhex(event["fields"]["bytes"]).decode() for event in events
                   if event["event"] == "map")


def check_caches(directory, output, caches):
    for cache in caches:
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")
    work.check_replay(directory, output, "--threads", "single")


INTEL = {"cpu": "max,vendor=GenuineIntel"}      # it has SYSENTER in 64-bit mode
WAYS = {
    "traps": ("traps", [], {}),
    "traps, Intel": ("traps", [], INTEL),
    "traps with an idle vCPU": ("traps", [], {"smp": 2}),
    "narrow": ("narrow", [], {}),
    "narrow, disturbed": ("narrow", [], {"smp": 2}),
    "modes": ("modes", [], {}),
    "modes with an idle vCPU": ("modes", [], {"smp": 2}),
    "forgotten": ("forgotten", [], {}),
    "vectors": ("vectors", [], {"smp": 2}),
    "vectors, slow path": ("vectors", ["--slow-path"], {"smp": 3, **INTEL}),
    "vectors, all orders": ("vectors", ["--order", "fdr,karma,rerun", "--chaos", "3"], {"smp": 4}),
    "bars": ("bars", [], {"smp": 3}),
    "floats": ("floats", [], {"smp": 2, "cpu": "max"}),
    "floats, slow path": ("floats", ["--slow-path"], {"smp": 3, "cpu": "max"}),
    "races": ("races", [], {"smp": 2}),
    "races, slow path": ("races", ["--slow-path"], {"smp": 2, "cpu": "qemu64", "machine": "pc"}),
    "races, all orders": ("races", ["--order", "fdr,karma,rerun", "--chaos", "5"], {"smp": 4}),
    "points": ("points", [], {}),
    "points in a race": ("points", [], {"smp": 2}),
    "points, slow path": ("points", ["--slow-path"], {"smp": 4, "cpu": "qemu64"}),
    "points, all orders": ("points", ["--order", "fdr,karma,rerun", "--chaos", "3"], {"smp": 3}),
}


@test_each(WAYS)
def a_guest_replays_identically(how):
    guest, options, machine = WAYS[how]
    directory, output = record(guest, *options, **machine)
    check_caches(directory, output, CACHES if how in SAID else CACHES[:1])
    if "all orders" in how:
        for order in ("karma", "rerun"):
            work.check_replay(directory, output, "--order", order)


@test_each(SAID)
def a_guest_replays_from_its_checkpoints(guest):
    directory, output = record(guest, "--checkpoint-interval", "0.02", "--chaos", "3",
                               smp=SMP.get(guest, 1))
    work.check_checkpoints(directory, output, 3)


@test_each(SAID)
def copies_of_memory_are_coherent(guest):
    directory, _ = record(guest, smp=SMP.get(guest, 1))
    _, said = work.replay(directory, "--paranoid=20")
    check("replayed identically" in said and "are coherent" in said, said)


@test_each([1, 2])
def a_moment_beside_an_exception_is_reached(smp):
    """A vCPU cannot stop between an instruction that completes and the exception that it raises."""
    need("x86_64")
    directory = work.place(f"raises-{smp}")
    output, _ = work.record(directory, "--digest-interval", "1000", *bare_guest.x86_command(
        BIN, bare_guest.build_x86(work, "raises.c"), smp=smp))
    bare_guest.check_console(output.decode(), ["raised"])
    last = json.loads(run(REPRISE, "info", "--json", directory).stdout)["critical_path"]["steps"]
    moments = range(last - 40000, last - 40000 + 600)
    asked = [word for moment in moments for word in ("--ask", f"goto {moment}")]
    said = run(REPRISE, "debug", directory, *asked).stdout
    reached = [int(at) for at in re.findall(r"^moment \d+ of .* at 0:(\d+)", said, re.M)]
    check(len(reached) == len(moments), said[-400:])
    late = [at - reached[0] - i for i, at in enumerate(reached)]
    check(late.count(0) > 500 and late.count(1) > 5 and set(late) == {0, 1}, late)


@test
def results_of_libm_are_recorded():
    """Without FMA, glibc's have other last bits."""
    directory, output = record("forgotten")
    process = work.start("replay", directory, env={
        **os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"})
    check("replayed identically" in end(process), "it differs")
    check(work.console.read() == output, "the console differs")


@test_each([1, 2])
def roms_of_devices_are_saved(smp):
    """Firmware maps that of a network card, which nobody sees when the recording starts."""
    need("x86_64")
    directory = work.place(f"rom-{smp}")
    kernel = bare_guest.build_x86(work, "forgotten.c")
    output, _ = work.record(directory, "--checkpoint-interval", "0.2",
                            *bare_guest.x86_command(BIN, kernel, smp=smp),
                            "-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n")
    check("virtio-net-pci.rom" in maps_of(directory), "it was not mapped")
    work.check_replay(directory, output)
    work.check_checkpoints(directory, output, 2)


@test_each([1, 2])
def waking_up_ends_the_recording(smp):
    """It is a reset, though not one that QEMU makes like others."""
    need("x86_64")
    directory, path = work.place(f"suspended-{smp}"), work.path("qmp")
    process = work.start("record", "-o", directory, "--digest-interval", "1000", "--qmp", path,
                         *bare_guest.x86_command(BIN, bare_guest.build_x86(work, "suspended.c"),
                                                 smp=smp))
    qmp = Qmp(path, process)
    qmp.event("SUSPEND")
    check(qmp("query-recorder")["return"]["state"] == "recording", "it does not record")
    qmp("system_wakeup")
    said = one_line(end(process))
    qmp.close()
    check(said.endswith("guest-reset"), said)
    output = work.console.read()
    work.check_replay(directory, output[:output.index(b"\n") + 1])


# What refused.c does, on so many vCPUs, and what the tool says of it.
REFUSED = {
    "use_ferr": (1, "the guest uses FERR# (CR0.NE is 0)"),
    "use_ignne": (1, "the guest uses IGNNE# (port 0xf0)"),
    "disable_apic": (1, "the guest disables its APIC"),
    "enable_svm": (1, "the guest uses nested virtualisation (SVM)"),
    "use_tables_in_rom": (1, "the guest keeps page tables outside of its main memory"),
    "let_another_switch_a20": (2, "a vCPU switches the A20 gate of another vCPU"),
    "let_another_run_while_memory_moves":
        (2, "the guest's memory map changes while other vCPUs run"),
    "push_device": (2, "an instruction accessed a device and then memory"),
    "compare_device": (2, "an instruction accessed a device and then memory"),
}


@test_each(REFUSED)
def what_cannot_be_recorded_is_refused(what):
    """What came before is a recording; the guest goes on."""
    need("x86_64")
    directory = work.place("refused-x86")
    smp, why = REFUSED[what]
    kernel = bare_guest.build_x86(work, "refused.c", smp - 1, what)
    output, said = work.record(directory, *bare_guest.x86_command(BIN, kernel, smp=smp), status=1)
    check(why in said, said)
    shown, said = work.replay(directory)
    check("replayed up to the cut" in said and output.startswith(shown), said)
    check(b"before" in shown and b"after" not in shown, shown)


main(work)
