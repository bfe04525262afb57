# SPDX-License-Identifier: GPL-2.0-or-later
"""x86_64 guests without an operating system: faults in deliveries, gates, modes, vectors."""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import check, main, test_each
from tests.lib.tool import BIN, info, need

work = GuestWorkspace()
SAID = {
    "traps": ["split", "absent", "lost", "nested", "nmis", "steps", "points", "gates", "segments",
              "pit", "start", "x2apic", "interrupts"],
}
ENDS = {"traps": "guest-reset"}         # the others switch the machine off
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


@test_each(["traps max", "traps max,vendor=GenuineIntel"])
def a_guest_replays_identically(how):
    """SYSENTER is Intel's."""
    guest, cpu = how.split()
    check_caches(*record(guest, cpu=cpu))


@test_each(["traps"])
def a_guest_replays_from_its_checkpoints(guest):
    directory, output = record(guest, "--checkpoint-interval", "0.02", "--chaos", "3")
    work.check_checkpoints(directory, output, 3)


@test_each(["traps"])
def copies_of_memory_are_coherent(guest):
    """Not while the firmware runs."""
    directory, output = record(guest, "--checkpoint-interval", "0.2")
    middle = len(info(directory)["checkpoints"]) // 2
    shown, said = work.replay(directory, "--paranoid=5", "--from", str(middle))
    check("replayed identically" in said and "are coherent" in said, said)
    check(output.endswith(shown), f"recorded:\n{output}\nreplayed:\n{shown}")


main(work)
