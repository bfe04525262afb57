# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise replay --paranoid`: copies of memory are coherent with it; if not, that is noticed."""

import os
import re

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, info

work = GuestWorkspace()
FAULT = "REPRISE_PARANOID_FAULT"


@work.shared
def linux():
    """Four vCPUs, with a checkpoint or more: directory, console output."""
    directory = work.place("linux")
    recorded, _ = work.record(directory, "--smp", "4", "--checkpoint-interval", "1",
                              "--run", "forkstorm -t 4 -n 8")
    check(b"reprise: end status=0" in recorded, recorded)
    return directory, recorded


@work.shared
def bare(cpu, smp):
    directory = work.place(f"bare-{cpu}-{smp}")
    recorded, _ = work.record(directory, *bare_guest.command(BIN, cpu, smp, bare_guest.build(work)))
    bare_guest.check_console(recorded.decode())
    return directory, recorded


def compared(said):
    """How many checks there were, and how many translations and blocks were compared."""
    match = re.search(r"; (\d+) translations and (\d+) blocks of code are coherent "
                      r"\((\d+) checks\)$", said)
    check("replayed identically" in said and match, said)
    return [int(n) for n in match.group(3, 1, 2)]


def replay_with_fault(fault, directory, *args):
    process = work.start("replay", directory, *args, env={**os.environ, FAULT: fault})
    return one_line(end(process, 1))


@test_each(["cortex-a72", "cortex-a76", "max", "cortex-a76 smp", "max smp"])
def a_bare_guest_is_coherent_at_every_boundary(how):
    cpu, *smp = how.split()
    directory, recorded = bare(cpu, 2 if smp else 1)
    shown, said = work.replay(directory, "--paranoid=1")
    checks, translations, blocks = compared(said)
    check(shown == recorded, f"recorded:\n{recorded}\nreplayed:\n{shown}")
    check(checks > 1000 and translations > checks and blocks > checks, said)


@test_each(["start", "checkpoint", "one thread"])
def linux_on_four_vcpus_is_coherent(how):
    directory, recorded = linux()
    check(len(info(directory)["checkpoints"]) > 1, "no checkpoint was made")
    options = {"start": [], "checkpoint": ["--from", "1"], "one thread": ["--threads", "single"]}
    shown, said = work.replay(directory, "--paranoid=100000", *options[how])
    checks, translations, blocks = compared(said)
    check(recorded.endswith(shown), f"recorded:\n{recorded}\nreplayed:\n{shown}")
    check(checks > 100 and translations > 100 * checks and blocks > 100 * checks, said)


@test
def a_drop_that_is_ignored_is_noticed():
    """In the recording a translation was dropped there, since another vCPU changed its table."""
    line = replay_with_fault("drops", linux()[0], "--paranoid=5000")
    check("diverged" in line and re.search(r"the translation of 0x\w+ \(mmu index \d+\) is not "
                                           r"coherent: expected .*, seen physical page 0x", line),
          line)


@test
def a_translation_to_another_page_is_noticed():
    line = replay_with_fault("translation", bare("cortex-a76", 2)[0], "--paranoid=1")
    pages = re.search(r"the translation of .* is not coherent: expected physical page 0x(\w+) .*, "
                      r"seen physical page 0x(\w+) ", line)
    check(pages and int(pages.group(1), 16) ^ int(pages.group(2), 16) == 4096, line)


@test
def a_block_of_other_bytes_is_noticed():
    line = replay_with_fault("block", bare("cortex-a76", 2)[0], "--paranoid=1")
    found = re.search(r"the block of code at 0x\w+ is not coherent: its byte \d+, .*: "
                      r"expected 0x(\w+), seen 0x(\w+)$", line)
    check(found and int(found.group(1), 16) ^ int(found.group(2), 16) == 1, line)


@test
def without_the_option_nothing_is_compared_and_no_fault_made():
    directory, _ = bare("cortex-a76", 2)
    for fault in ("drops", "translation", "block"):
        said = one_line(end(work.start("replay", directory, env={**os.environ, FAULT: fault})))
        check("replayed identically" in said and "coherent" not in said, said)


@test
def blocks_of_an_earlier_replay_are_not_taken_on_trust():
    """The second of three replays in one emulator is paranoid."""
    directory, _ = bare("cortex-a76", 1)
    path = work.path("qmp")
    process = work.start("replay", directory, "--qmp", path, "--pause-at-end")
    qmp = Qmp(path, process)
    check(qmp.replayed() == {"identical": True}, "the first")
    qmp("recorder-replay", directory=directory, paranoid=1)
    second = qmp.replayed()
    counts = second.get("compared", {})
    check(second["identical"] and counts["blocks"] > counts["checks"] > 1000, second)
    qmp("recorder-replay", directory=directory)
    check(qmp.replayed() == {"identical": True}, "the third")
    qmp("quit")
    end(process)
    qmp.close()


@test_each(["0", "-1", "x", ""])
def an_interval_is_a_number_of_steps(n):
    done = run(REPRISE, "replay", "nowhere", f"--paranoid={n}", status=2)
    check(f"--paranoid=N is a number of steps, not '{n}'" in one_line(done.stderr), done.stderr)


main(work)
