# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers (tests/bench/servers.py), as cases of the soak: each is recorded and replayed.

    servers-1-quiet-2-redis1 ...    round 1, on a host that does nothing else, 2 vCPUs
    servers-1-busy-2-redis1 ...     beside a busy loop on each core
    servers-1-realtime-2-redis1 ... one core is taken 90 % of the time

Each round has every workload once for each load and 2 and 4 vCPUs.
"""

import functools

from tests.bench import host, servers
from tests.bench.measure import Failure as NoImage
from tests.soak.cases import Case
from tests.soak.guest import Failure

ROUNDS = 3
SHARE = 0.08                    # of the work in the benchmark
PATIENCE_S = 600                # for a recording, and for a replay


@functools.cache
def have_image():
    servers.build_image()


def serve(workload, vcpus, load):
    size = max(8, round(servers.WORKLOADS[workload].size * SHARE))

    def function(recording):
        recording.patience = PATIENCE_S
        try:
            have_image()
            with host.crowded(load):
                output = recording.record(f"server-load {workload} {size}", vcpus, servers.IMAGE,
                                          mem=servers.MEM_MIB)
                servers.WORKLOADS[workload].read(output.decode().replace("\r", ""), size)
                recording.replay()
        except (NoImage, servers.Unreadable, host.Refused) as failure:
            raise Failure(str(failure)) from None
    return function


def server_cases():
    return [Case(f"servers-{number}-{load or 'quiet'}-{vcpus}-{workload}",
                 serve(workload, vcpus, load), False)
            for number in range(1, ROUNDS + 1) for load in (None, *host.LOADS)
            for vcpus in servers.PARTS.values() for workload in servers.WORKLOADS]
