# SPDX-License-Identifier: GPL-2.0-or-later
"""x86_64 guests without an operating system: faults in deliveries, gates, modes, vectors."""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, need

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
}
ENDS = {"traps": "guest-reset"}         # the others switch the machine off
SMP = {"vectors": 3}
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
    "narrow with an idle vCPU": ("narrow", [], {"smp": 2}),
    "modes": ("modes", [], {}),
    "modes with an idle vCPU": ("modes", [], {"smp": 2}),
    "vectors": ("vectors", [], {"smp": 2}),
    "vectors, slow path": ("vectors", ["--slow-path"], {"smp": 3, **INTEL}),
    "vectors, all orders": ("vectors", ["--order", "fdr,karma,rerun", "--chaos", "3"], {"smp": 4}),
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


@test
def a_data_breakpoint_is_refused():
    directory = work.place("refused-x86")
    output, said = work.record(directory, *bare_guest.x86_command(
        BIN, bare_guest.build_x86(work, "refused.c")), status=1)
    check("the guest sets a data breakpoint" in said, said)
    check(b"before" in output and b"after" not in output, output)
    shown, said = work.replay(directory)
    check("replayed up to the cut" in said and shown == output, said)


main(work)
