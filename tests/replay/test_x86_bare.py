# SPDX-License-Identifier: GPL-2.0-or-later
"""x86_64 guests without an operating system: faults in deliveries, gates, modes, vectors."""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import check, main, test_each
from tests.lib.tool import BIN, need

work = GuestWorkspace()
NARROW = ["flags", "bases", "stale", "faults", "recursion", "instructions", "code-16", "gates",
          "tasks"]
SAID = {
    "traps": ["split", "absent", "lost", "nested", "nmis", "steps", "points", "gates", "segments",
              "pit", "start", "x2apic", "interrupts"],
    "narrow": [*NARROW, *(f"{name}-pae" for name in [*NARROW[:5], "execution", *NARROW[5:]]),
               "interrupts"],
    "vectors": ["gather", "masks", "wide", "saves", "bounds", "locked", "stacks", "segments",
                "rep-race", "interrupts"],
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


def check_caches(directory, output):
    for cache in CACHES:
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")
    work.check_replay(directory, output, "--threads", "single")


WAYS = {
    "traps": ("traps", [], {}),
    "traps, Intel": ("traps", [], {"cpu": "max,vendor=GenuineIntel"}),   # SYSENTER
    "traps with an idle vCPU": ("traps", [], {"smp": 2}),
    "narrow": ("narrow", [], {}),
    "narrow with an idle vCPU": ("narrow", [], {"smp": 2}),
    "vectors": ("vectors", [], {"smp": 2}),
    "vectors, slow path": ("vectors", ["--slow-path"], {"smp": 3}),
    "vectors, all orders": ("vectors", ["--order", "fdr,karma,rerun", "--chaos", "3"], {"smp": 4}),
}


@test_each(WAYS)
def a_guest_replays_identically(how):
    guest, options, machine = WAYS[how]
    directory, output = record(guest, *options, **machine)
    check_caches(directory, output)
    if "all orders" in how:
        for order in ("karma", "rerun"):
            work.check_replay(directory, output, "--order", order)


@test_each(["traps", "narrow", "vectors"])
def a_guest_replays_from_its_checkpoints(guest):
    directory, output = record(guest, "--checkpoint-interval", "0.02", "--chaos", "3",
                               smp=SMP.get(guest, 1))
    work.check_checkpoints(directory, output, 3)


@test_each(["traps", "narrow", "vectors"])
def copies_of_memory_are_coherent(guest):
    directory, _ = record(guest, smp=SMP.get(guest, 1))
    _, said = work.replay(directory, "--paranoid=20")
    check("replayed identically" in said and "are coherent" in said, said)


main(work)
