# SPDX-License-Identifier: GPL-2.0-or-later
"""Both host architectures record, and each replays what the other one has recorded.

A bare guest, whose two vCPUs race: seconds, though one of the hosts is emulated.
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


main(work)
