# SPDX-License-Identifier: GPL-2.0-or-later
"""What the benchmark reads and how it loads the host; no guest."""

import os
import signal
import subprocess
import sys
import time

from tests.bench import host, servers
from tests.bench.main import alone
from tests.lib.checkout import TOP
from tests.lib.tap import check, main, need_root, test, test_each

OUTPUTS = {
    "redis1": ("bench: begin\n"
               '"test","rps","avg_latency_ms","min_latency_ms"\n'
               '"SET","500.00","25.094","1.832"\n"GET","1000.00","24.284","1.744"\n'
               "bench: end elapsed=7.34\n", 1000, 2000, 2000 / 3),
    "nginx": ("Complete requests:      500\nFailed requests:        0\n"
              "Requests per second:    9.87 [#/sec] (mean)\n", 500, 500, 9.87),
    "sqlite": ("bench: end elapsed=20\nrows: 200\n", 200, 200, 10),
    "hackbench": ("Running in process mode with 2 groups using 10 file descriptors each "
                  "(== 20 tasks)\nEach sender will pass 100 messages of 100 bytes\nTime: 2.000\n",
                  100, 1000, 500),
    "threads": ("    total time:                          2.0000s\n"
                "    total number of events:              500\n", 500, 500, 250),
    "mutex": ("    total time:                          2.0000s\n"
              "    total number of events:              4\n", 100, 400, 200),
    "pigz": ("bench: end elapsed=0.5\npacked KiB: 100\n", 100, 100, 200),
}

BROKEN = {
    "redis1": ('"SET","500.00"\n', 1000),                       # one of two tests
    "nginx": ("Complete requests: 500\nFailed requests: 3\nRequests per second: 9\n", 500),
    "threads": ("total time: 2.0000s\ntotal number of events: 499\n", 500),
    "sqlite": ("bench: end elapsed=20\n", 200),
    "xz": ("bench: end elapsed=20\npacked KiB: 100\n", 200),
}


@test_each(OUTPUTS)
def the_output_is_read(workload):
    output, size, operations, rate = OUTPUTS[workload]
    done, own = servers.WORKLOADS[workload].read(output, size)
    check(done == operations and abs(own - rate) < 1e-6 * rate, f"{done}, {own}")


@test_each(BROKEN)
def work_that_is_missing_is_noticed(workload):
    try:
        read = servers.WORKLOADS[workload].read(*BROKEN[workload])
    except servers.Unreadable:
        return
    check(False, f"read {read}")


def children(pid):
    """Processes of a load that a process started, and that have not ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as stat:
                state, parent = stat.read().rpartition(")")[2].split()[:2]
            with open(f"/proc/{name}/cmdline", "rb") as line:
                is_load = b"tests.bench.host" in line.read()
        except OSError:
            continue
        if int(parent) == pid and is_load and state != "Z":
            found.append(int(name))
    return found


@test
def a_load_ends_with_what_it_is_for():
    with host.crowded("busy"):
        check(len(children(os.getpid())) == len(os.sched_getaffinity(0)), "not on each core")
    check(not children(os.getpid()), "it is still there")


@test
def a_load_ends_with_a_benchmark_that_is_killed():
    code = ("from tests.bench import host\nimport time\n"
            "with host.crowded('busy'):\n    print('on', flush=True)\n    time.sleep(600)\n")
    killed = subprocess.Popen([sys.executable, "-P", "-c", code], stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": TOP})
    check(killed.stdout.readline() == b"on\n", "it did not start")
    loads = children(killed.pid)
    check(loads, "there is no load")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    deadline = time.monotonic() + 60
    while any(is_load(pid) for pid in loads):
        check(time.monotonic() < deadline, f"{loads} go on")
        time.sleep(0.1)


def is_load(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return b"tests.bench.host" in line.read()
    except OSError:
        return False


@test
def a_load_of_real_time_is_one():
    need_root()
    with host.crowded("realtime", share=0.02):          # little: other tests run, too
        load, = children(os.getpid())
        check(os.sched_getscheduler(load) == os.SCHED_FIFO, "it has no real-time priority")
        check(len(os.sched_getaffinity(load)) == 1, "it is not on one core")
    check(not children(os.getpid()), "it is still there")


@test
def two_benchmarks_do_not_measure_at_once():
    lock = alone()              # or another benchmark has it: that is as good
    second = subprocess.run([os.path.join(TOP, "tests", "bench", "run"), "pause"],
                            capture_output=True, text=True)
    check(second.returncode == 1 and "another benchmark" in second.stderr, second)
    if lock:
        lock.close()


main()
