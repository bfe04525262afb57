# SPDX-License-Identifier: GPL-2.0-or-later
"""Both host architectures record, and each replays what the other one has recorded.

Bare guests, whose vCPUs race: seconds, though one of the hosts is emulated.
"""

from tests.cross.hosts import HOSTS, check_replay, need_other, record
from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import main, test_each

work = GuestWorkspace()


@test_each(["here", "there", "there --slow-path"])
def a_race_is_replayed_on_both_hosts(how):
    where, *options = how.split()
    need_other()
    directory = work.place("race")
    recorded = record(where, directory, *options,
                      *bare_guest.command(HOSTS[where], "cortex-a72", 2, bare_guest.build(work)))
    bare_guest.check_console(recorded)
    for replayer in HOSTS:
        check_replay(replayer, directory, recorded)


@test_each(["here 1", "there 1", "here 2", "there 2"])
def an_x86_guest_is_replayed_on_both_hosts(how):
    """Also where the hosts differ: barriers, and what they cannot do in parallel."""
    where, smp = how.split()
    need_other()
    directory, smp = work.place("x86"), int(smp)
    kernel = (bare_guest.build_x86(work, "one.c") if smp == 1 else
              bare_guest.build_x86(work, "several.c", smp - 1))
    command = bare_guest.x86_command(HOSTS[where], kernel, smp=smp)
    recorded = record(where, directory, "--digest-interval", "1000", *command, races=smp > 1)
    for replayer in HOSTS:
        check_replay(replayer, directory, recorded)


main(work)
