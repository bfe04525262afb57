# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions that access many bytes at once, on several vCPUs: vectors and memory copies.

A replay compares all of memory in the end.
"""

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, info

work = GuestWorkspace()
# What each mode of the guest says, in this order.
SAID = {
    "WHOLE": ["plain", "two-pages", "split-element", "structures", "code", "table",
              "code-and-table", "register", "scatter", "split-scatter", "za", "set", "set-code",
              "copy"],
    "RACE": ["race"],
}
CACHES = ("x-tlb-bits=6", "x-tlb-bits=12", "one-insn-per-tb=on")


def record(mode, smp, *options, cpu="max"):
    directory = work.place(f"vectors-{mode}")
    output, _ = work.record(directory, "--digest-interval", "1000", *options,
                            *bare_guest.command(BIN, cpu, smp,
                                                bare_guest.build(work, mode, "vectors.c")))
    bare_guest.check_console(output.decode(), SAID[mode])
    return directory, output


def check_replays(directory, output):
    """With other caches, and other blocks of code."""
    for cache in CACHES:
        work.check_replay(directory, output, "--", "-accel", f"tcg,thread=multi,{cache}")


@test_each(["2", "4", "2 slow-path"])
def a_vector_is_stored_whole(how):
    smp, *slow = how.split()
    work.check_replay(*record("WHOLE", int(smp), *(f"--{word}" for word in slow)))


@test_each(["1", "2", "4", "2 slow-path"])
def vectors_and_memory_copies_replay(how):
    smp, *slow = how.split()
    check_replays(*record("RACE", int(smp), *(f"--{word}" for word in slow)))


@test_each(["128", "512"])
def short_vectors_replay(bits):
    work.check_replay(*record("RACE", 2, cpu=f"max,sve{bits}=on,sve-max-vq={int(bits) // 128}"))


@test_each(range(1, 4))
def they_replay_with_rare_ways(seed):
    """With seeds that make rare ways common: exclusive steps, evictions, short budgets."""
    work.check_replay(*record("RACE", 4, "--chaos", str(seed)), "--chaos", str(seed))


@test
def copies_are_coherent_at_every_boundary():
    work.check_replay(*record("RACE", 2), "--paranoid=1")


@test_each(["fdr", "karma,rerun"])
def they_replay_from_checkpoints(order):
    directory, output = record("RACE", 2, "--checkpoint-interval", "0.05", "--chaos", "9",
                               "--order", order)
    checkpoints = len(info(directory)["checkpoints"])
    check(checkpoints > 2, f"only {checkpoints} checkpoints")
    for number in range(checkpoints):
        work.check_replay(directory, output, "--from", str(number))


@test
def linux_replays_on_all_features():
    """The kernel switches between threads that use vectors."""
    command = stock_command("vectors -t 8 -n 3000 && racey -t 4 -n 100000", 4,
                            ("--", "-cpu", "max,pmu=off,pauth-impdef=on"))
    directory = work.place("vectors-linux")
    output, _ = work.record(directory, "--", *command)
    check(b"vectors: words=8 " in output and b"reprise: end status=0" in output, output)
    work.check_replay(directory, output)


main(work)
