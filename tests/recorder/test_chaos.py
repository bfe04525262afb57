# SPDX-License-Identifier: GPL-2.0-or-later
"""Rare paths made common: a few seeds of what `make soak CASES='chaos-*'` has hundreds of."""

from tests.lib import chaos
from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.live_guest import BUSY, status
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import need

work = GuestWorkspace()
SEED = 2
DRAWN = ("seed 2, linger_us 17, own_stores 4, core_yield_us 0, core_yield_steps 0, low_pages 1, "
         "nap 77, nap_us 7")


@test
def the_tool_takes_a_seed_and_the_status_shows_what_was_drawn():
    directory, path = work.place("shown"), work.path("qmp")
    process = work.start("record", "-o", directory, "--smp", "2", "--chaos", str(SEED),
                         "--checkpoint-interval", "0.05", "--qmp", path, "--run", BUSY)
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    check(status(qmp)["x-chaos"] == DRAWN, status(qmp))
    check(f"chaos: {DRAWN}\r\n" in qmp("human-monitor-command",
                                        **{"command-line": "info recorder"})["return"], "as text")
    qmp("recorder-stop", pause=True)
    check("x-chaos" not in status(qmp), "after the end")
    qmp("quit")
    end(process)
    qmp.close()
    check("replayed identically" in work.replay(directory)[1], "without a seed")
    check("replayed identically" in work.replay(directory, "--chaos", "5")[1], "with another seed")


@test_each([4, 11])
def a_draw_replays_from_everywhere(seed):
    need("aarch64")
    print(f"# {chaos.case(seed, work.place(f'chaos-{seed}'), work.directory, small=True)}",
          flush=True)


@test_each(["-1", "x"])
def a_seed_that_is_none_is_refused(seed):
    said = work.record(work.place("refused"), "--chaos", seed, "--run", "true", status=2)[1]
    check("chaos" in said, said)
    check("chaos" in work.replay(work.place("refused"), "--chaos", seed, status=2)[1], "replay")


main(work)
