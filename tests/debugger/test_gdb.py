# SPDX-License-Identifier: GPL-2.0-or-later
"""A real gdb on a guest that is not recorded: the gdbstub of our emulator is as good as
QEMU's own, and the symbols of images/symbols are those of the kernel that runs.

Breakpoints are written FILE:FUNCTION: by its name alone gdb finds two places, since the
compiler left the room for tracers at a function's start out of the debugging information.
"""

import contextlib
import json
import os
import re
import subprocess
import time

from tests.lib.checkout import BUILD
from tests.lib.gdb import Gdb, symbols
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import need

work = GuestWorkspace()
VCPUS = 4
POWER_ON = 0x40000000       # where -kernel puts the first instruction on `virt`
QUIT_S = 60
NAPS = "while :; do sleep 0.01; sleep 0.0123456; done"


def gdb_socket():
    return work.path("gdb")


@contextlib.contextmanager
def guest(run_this, arch="aarch64"):
    """Stands at power-on; its gdbstub listens."""
    need(arch)
    command = stock_command(run_this, smp=VCPUS, arch=arch)
    with open(work.console.path, "wb") as file:
        process = subprocess.Popen([*command, "-S", "-gdb",
                                    f"unix:{gdb_socket()},server=on,wait=off"],
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(gdb_socket())


@contextlib.contextmanager
def debugged(run_this, vmlinux=None, arch="aarch64"):
    with guest(run_this, arch), Gdb(vmlinux) as gdb:
        gdb.connect(gdb_socket())
        yield gdb


def run_to(gdb, place):
    """Have it stop there."""
    gdb.command(f"tbreak {place}")
    stop = gdb.go("continue")
    check(stop.reason == "breakpoint-hit" and stop.function == place.split(":")[-1], gdb)
    return stop


# --- without symbols --------------------------------------------------------------------------

@test
def registers_memory_and_steps():
    with debugged("true") as gdb:
        threads = gdb.threads()
        check(len(threads) == VCPUS, threads)
        check(all(f"CPU#{number - 1} " in threads[number] for number in threads), threads)
        check(gdb.value("$pc") == POWER_ON, gdb)
        for steps in range(1, 4):
            stop = gdb.go("stepi")
            check(stop.reason == "end-stepping-range" and stop.thread == 1, stop)
            check(stop.pc == POWER_ON + 4 * steps, stop)
        check(re.search(r"=> 0x4000000c:\s+\w+", gdb.command("x/i $pc")), gdb)
        gdb.command("set var $x5 = 0x1234")
        gdb.command(f"set var *(unsigned long *){POWER_ON + 0x100000} = $x5 + 1")
        check(gdb.value(f"*(unsigned long *){POWER_ON + 0x100000}") == 0x1235, gdb)
        gdb.command("thread 3")
        check(gdb.value("$pc") == 0, gdb)
        check("does not support" in gdb.refusal("reverse-stepi"), "what is not recorded goes back")


@test
def the_guest_runs_on_without_its_debugger():
    with guest("echo it is up") as process:
        with Gdb() as gdb:
            gdb.connect(gdb_socket())
            gdb.go("stepi")
            gdb.start()
            check(gdb.interrupt().signal == "SIGINT", gdb)
            gdb.command("detach")
        check(process.wait(QUIT_S) == 0, work.console.read())
    check(b"it is up\r\nreprise: end status=0" in work.console.read(), work.console.read())


@test
def the_next_debugger_finds_it_where_the_last_one_died():
    with guest("true"):
        with Gdb() as gdb:
            gdb.connect(gdb_socket())
            gdb.go("stepi 2")
        with Gdb() as gdb:
            check(gdb.connect(gdb_socket()).pc == POWER_ON + 8, gdb)


@test
def what_gdb_does_not_do_fails_with_what_it_said():
    def complaint(function, *args):
        try:
            function(*args)
        except AssertionError as error:
            return str(error)
        raise AssertionError(f"{function.__name__}{args} passed")

    with guest(NAPS) as process, Gdb() as gdb:
        gdb.connect(gdb_socket())
        check("refuses frob: Undefined" in complaint(gdb.command, "frob"), "an unknown command")
        check("does not refuse stepi" in complaint(gdb.refusal, "stepi"), "a command that works")
        gdb.stopped()
        gdb.start()
        late = complaint(gdb.stopped, 0.1)
        check("does not come to a stop" in late and "> stepi" in late and "^running" in late, late)
        check("is running" in gdb.refusal("print $pc"), "a guest that runs")
        process.kill()
        check("has lost the guest" in complaint(gdb.stopped), "a guest that is gone")


# --- with symbols -----------------------------------------------------------------------------

@test
def the_symbols_are_those_of_the_kernel():
    with open(f"{BUILD}/images/stock/aarch64/image.json") as file:
        image = json.load(file)
    version = image["kernel"]
    package = image["packages"][f"linux-image-{version}"]
    with debugged("true", symbols()) as gdb:
        stop = run_to(gdb, "init/main.c:start_kernel")
        check(stop.thread == 1 and stop.file == "init/main.c" and stop.line > 0, stop)
        banner = gdb.command("x/s linux_banner")        # from the guest's memory
        check(f"Linux version {version} " in banner and f"Debian {package} " in banner, banner)
        check("Cannot access memory" in gdb.refusal("print *(int *)0x10"), gdb)
        check('= "swapper' in gdb.command("print init_task.comm"), gdb)
        check("SYSTEM_BOOTING" in gdb.command("print system_state"), gdb)
        trace = gdb.command("backtrace")
        check(re.match(r"#0  start_kernel \(\) at init/main.c:\d+\n"
                       r"#1 .* __primary_switched ", trace), trace)


@test
def steps_follow_the_source():
    with debugged("true", symbols()) as gdb:
        line = run_to(gdb, "init/main.c:rest_init").line
        inside = gdb.go("step")
        check(inside.function == "rcu_scheduler_starting" and inside.reason == "end-stepping-range",
              gdb)
        outside = gdb.go("finish")
        check(outside.function == "rest_init" and outside.reason == "function-finished", gdb)
        over = gdb.go("next")
        check(over.function == "rest_init" and over.line > line and over.thread == 1, gdb)


@test
def breakpoints_name_the_vcpu():
    with debugged("true", symbols()) as gdb:
        gdb.command("break secondary_start_kernel")
        for vcpu in range(2, VCPUS + 1):
            stop = gdb.go("continue")
            check(stop.reason == "breakpoint-hit" and stop.thread == vcpu, stop)
            check("CPU#%d [running]" % (vcpu - 1) in gdb.threads()[vcpu], gdb)


@test_each(["aarch64", "x86_64"])
def watchpoints_show_what_was_written(arch):
    with debugged("true", symbols(arch), arch) as gdb:
        run_to(gdb, "init/main.c:start_kernel")
        gdb.command("watch system_state")
        stop = gdb.go("continue")
        check(stop.reason == "watchpoint-trigger" and stop.function == "rest_init", stop)
        check(stop.record["value"] == {"old": "SYSTEM_BOOTING", "new": "SYSTEM_SCHEDULING"}, stop)


@test
def conditions_choose_among_hits():
    with debugged(NAPS, symbols()) as gdb:
        gdb.command("break kernel/time/hrtimer.c:hrtimer_nanosleep if rqtp == 12345600")
        for _ in range(3):
            stop = gdb.go("continue")
            check(stop.reason == "breakpoint-hit" and gdb.value("rqtp") == 12345600, gdb)
            check("__arm64_sys_clock_nanosleep" in gdb.command("backtrace"), gdb)


@test
def every_vcpu_has_a_backtrace():
    """A guest that sleeps: its vCPUs wait, or are about to."""
    with debugged("echo up; sleep 1000", symbols()) as gdb:
        run_to(gdb, "kernel/time/hrtimer.c:hrtimer_nanosleep")
        # Whatever was still to be done at that time is done, once all of them are idle.  Where an
        # exception begins, gdb finds no callers.
        for _ in range(100):
            gdb.start()
            time.sleep(0.05)
            gdb.interrupt()
            traces = gdb.command("thread apply all backtrace")
            if (traces.count(" do_idle () at kernel/sched/idle.c:") == VCPUS and
                    not re.search("^#0 .* vectors ", traces, re.M)):
                break
        check(len(re.findall(r"^Thread \d+ \(.* \(CPU#\d+ ", traces, re.M)) == VCPUS, traces)
        check(traces.count(" cpu_startup_entry (state=") == VCPUS, traces)
        check(traces.count(" secondary_start_kernel () at arch/arm64/kernel/smp.c:") == VCPUS - 1,
              traces)
        check(traces.count(" rest_init () at init/main.c:") == 1, traces)


main(work)
