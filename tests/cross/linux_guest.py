# SPDX-License-Identifier: GPL-2.0-or-later
"""Linux with two vCPUs, on both host architectures (make cross WHAT=linux): long.

On an emulated host a timer interrupt may take as long as Linux's interrupts are apart.
So it starts with one vCPU, without watching for hangs, and turns the second on for the race.
"""

from tests.cross.hosts import HOSTS, check_replay, need_other, record
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.tap import check, main, test_each

work = GuestWorkspace()
PATIENCE_S = 7200
RACE = "echo 1 > /sys/devices/system/cpu/cpu1/online && racey -t 2 -n 20000"


@test_each(["here", "there"])
def racey_is_replayed_on_both_hosts(where):
    need_other()
    directory = work.place("racey")
    guest = stock_command(RACE, smp=2, boot=("--append", "maxcpus=1 nowatchdog",
                                             "--qemu-dir", HOSTS[where]))
    recorded = record(where, directory, "--", *guest, patience_s=PATIENCE_S)
    check("reprise: end status=0" in recorded, recorded)
    for replayer in HOSTS:
        check_replay(replayer, directory, recorded, patience_s=PATIENCE_S)


main(work)
