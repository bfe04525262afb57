# SPDX-License-Identifier: GPL-2.0-or-later
"""The host that is measured on: time that its own host took from it, and other load on purpose.

A load is other processes that want the cores while a part is measured (--crowded):

    busy      a loop on each core, of normal priority
    realtime  a SCHED_FIFO process that takes one core for 900 ms of each second.  Needs root.

They end with the benchmark, however that ends: the kernel kills them with their parent.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

from tests.lib.checkout import TOP

LOADS = ("busy", "realtime")
REALTIME_SHARE = 0.9
STEAL_NOTED = 0.10
READY = b"ready\n"

PR_SET_PDEATHSIG = 1


class Refused(Exception):
    """What makes it impossible to measure, and what to do."""


# --- steal ----------------------------------------------------------------------------

def processor_times():
    """(stolen, all) of all cores since the host was booted, in ticks."""
    with open("/proc/stat") as stat:
        # user nice system idle iowait irq softirq steal; guest time is within user time.
        fields = [int(field) for field in stat.readline().split()[1:9]]
    return fields[7], sum(fields)


class Steal:
    """The share of processor time that the host of this host took for itself or for others."""

    def __init__(self):
        self.before = processor_times()

    def share(self):
        stolen, all_ = (now - then for now, then in zip(processor_times(), self.before))
        return round(stolen / all_, 4) if all_ else 0.0


def words_of_steal(result):
    noted = ": do not trust these figures" if result["steal"] > STEAL_NOTED else ""
    return f"st {result['steal']:.1%}{noted}"


# --- load -----------------------------------------------------------------------------

def check_load(load):
    """Raise Refused if it cannot be made here."""
    if load != "realtime":
        return
    try:
        with open("/proc/sys/kernel/sched_rt_runtime_us") as file:
            runtime = int(file.read())
        with open("/proc/sys/kernel/sched_rt_period_us") as file:
            period = int(file.read())
    except OSError:
        return
    if 0 <= runtime < REALTIME_SHARE * period:
        raise Refused(f"real-time processes get only {runtime / period:.0%} of a core here: "
                      f"sysctl kernel.sched_rt_runtime_us={int(0.95 * period)} allows more")
    if os.geteuid() != 0:
        raise Refused("a real-time process needs root")


def start(kind, core, *arguments):
    """A process of a load, which says a word when it is ready."""
    return subprocess.Popen([sys.executable, "-P", "-m", "tests.bench.host", kind, str(core),
                             str(os.getpid()), *arguments], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": TOP})


@contextlib.contextmanager
def crowded(load, share=REALTIME_SHARE):
    """Have this load (None: none) beside what is done in the meantime."""
    cores = sorted(os.sched_getaffinity(0))
    processes = []
    try:
        if load == "busy":
            processes += [start("busy", core) for core in cores]
        elif load == "realtime":
            processes.append(start("realtime", cores[-1], str(share)))
        for process in processes:
            if process.stdout.readline() != READY:
                raise Refused(f"the load {load!r} does not start")
        yield
        if any(process.poll() is not None for process in processes):
            raise Refused(f"the load {load!r} has ended too early")
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


# --- a process of the load ------------------------------------------------------------

def say_ready():
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()


def be_busy():
    say_ready()
    while True:
        pass


def take_core(share):
    """Take the core for this share of each second, by the clock."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    say_ready()
    began = time.monotonic()
    while True:
        while time.monotonic() < began + share:
            pass
        began += 1
        time.sleep(max(0, began - time.monotonic()))


def main(kind, core, parent, share=REALTIME_SHARE):
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):     # it has ended already
        return 1
    os.sched_setaffinity(0, {int(core)})
    return be_busy() if kind == "busy" else take_core(float(share))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
