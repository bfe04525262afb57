# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise record` and `reprise replay`: a real guest, recorded and replayed."""

import contextlib
import filecmp
import os
import re
import shutil
import signal
import socket
import time

from tests.guest import bare_guest
from tests.lib.checksum import change_manifest
from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, emulator_of, info, kill_emulator
from tests.lib.workspace import PATIENCE_S

work = GuestWorkspace()
RAM_START = 0x40000000                  # of the machine "virt"
REGISTERS_CHANGED = "registers were changed while the guest was paused"
SP, PC, CPSR = 31, 32, 33               # gdb's numbers
USER_LOOP = 0x41000000                  # where that guest loops
EL1 = 0x3c5                             # with its own stack pointer, no interrupts


# --- identical --------------------------------------------------------------------

@test
def a_recording_says_where_and_how_large_it_is():
    directory, output, line = work.hello()
    check(b"\nhello" in output, output)
    for word in (f"recorded {directory}: ", " MiB, ", " s, ", " instructions, guest-shutdown"):
        check(word in line, line)


@test
def it_replays_identically():
    directory, output, _ = work.hello()
    shown, line = work.replay(directory)
    check(shown == output, f"the console differs:\n{output}\n{shown}")
    check(line.startswith("reprise: replayed identically: ") and " steps in " in line, line)


@test
def an_image_of_the_user_is_recorded():
    """Its kernel is a bare guest, so that what it shows tells it from the stock image."""
    image = work.place("image")
    os.makedirs(f"{image}/aarch64")
    shutil.copy(bare_guest.build(work, "SUSPENDED", "copies.c"), f"{image}/aarch64/kernel")
    open(f"{image}/aarch64/initrd", "wb").close()
    directory = work.place("of-image")
    output, _ = work.record(directory, "--image", image, "--mem", "128", "--run", "nothing")
    bare_guest.check_console(output.decode(), ["suspended", "one"])
    check(work.replay(directory)[0] == output, "the console differs")


@test_each(["tb-size=8", "x-tlb-bits=6", "x-tlb-grow=on"],
           long=["tb-size=512", "one-insn-per-tb=on", "x-tlb-bits=16"])
def caches_do_not_matter(option):
    directory, output, _ = work.hello()
    shown, _ = work.replay(directory, "--", "-accel", f"tcg,thread=multi,{option}")
    check(shown == output, f"the console differs:\n{output}\n{shown}")


@test
def info_and_dump_read_it():
    directory, _, _ = work.hello()
    said = info(directory)
    check(said["complete"] and said["replayable"] and said["vcpus"] == 1, said)
    check(said["instructions"][0] > 1e6, said)
    lines = run(REPRISE, "dump", directory).stdout.splitlines()
    check(len(lines) == said["log_events"], f"{len(lines)} lines, {said['log_events']} events")


@test
def a_guest_that_is_stopped_by_the_timeout_replays():
    directory = work.place("timeout")
    output, line = work.record(directory, "--timeout", "4", "--run",
                               "while :; do echo $RANDOM; done")
    check("stopped by --timeout" in line, line)
    check(work.replay(directory)[0] == output, "the console differs")


@test
def a_recording_ends_at_its_size():
    directory = work.place("size")
    output, line = work.record(directory, "--max-size", "30M", "--digest-interval", "100",
                               "--run", "while :; do date; done")
    check(line.endswith("instructions, max-bytes"), line)
    size = float(re.search(r": ([\d.]+) MiB", line).group(1))
    check(30 <= size < 60, line)
    # The guest goes on for a moment, until it is ended.
    check(output.startswith(work.replay(directory)[0]), "the console differs")


@test_each(["SIGINT", "SIGTERM"])
def a_guest_that_is_stopped_by_a_signal_replays(name):
    directory = work.place(name)
    process = work.start("record", "-o", directory, "--run", "while :; do date; done")
    work.console.wait_for(b"reprise: begin", process)
    process.send_signal(signal.Signals[name])
    check("stopped by a signal" in one_line(end(process)), "who stopped it?")
    output = work.console.read()
    check(work.replay(directory)[0] == output, "the console differs")


def save_ram(qmp, name, size):
    path = work.path(name)
    answer = qmp("pmemsave", val=RAM_START, size=size, filename=path)
    check(answer == {"return": {}}, answer)
    return path


@test
def ram_is_the_same_byte_for_byte():
    mem = 128
    directory, path = work.place("ram"), work.path("qmp,1")
    process = work.start("record", "-o", directory, "--qmp", path, "--mem", str(mem),
                         "--run", "while :; do date; done")
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    check(qmp("recorder-stop", pause=True) == {"return": {}}, "recorder-stop")
    recorded = save_ram(qmp, "recorded.ram", mem << 20)
    qmp("quit")
    end(process)
    qmp.close()

    process = work.start("replay", directory, "--pause-at-end", "--qmp", path)
    lines = [process.stderr.readline() for _ in range(2)]
    check("replayed identically" in lines[0], lines)
    check("paused at the end" in lines[1] and path in lines[1], lines)
    qmp = Qmp(path, process)
    check(qmp("query-status")["return"]["running"] is False, "it runs")
    replayed = save_ram(qmp, "replayed.ram", mem << 20)
    check(process.poll() is None, "it did not wait")
    qmp("quit")
    end(process)
    qmp.close()
    check(filecmp.cmp(recorded, replayed, shallow=False), "RAM differs")
    os.unlink(recorded)
    os.unlink(replayed)


@test
def a_running_guest_is_recorded_again_and_again():
    path = work.path("qmp")
    process = work.start("record", "-o", work.place("again-0"), "--qmp", path,
                         "--run", "while :; do date; done")
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    for i in (1, 2):
        check(qmp("recorder-stop") == {"return": {}}, "recorder-stop")
        check("nothing is being recorded" in str(qmp("recorder-stop")), "stopped twice")
        time.sleep(0.1)
        check(qmp("recorder-start", directory=work.place(f"again-{i}")) == {"return": {}}, "start")
        check("already" in str(qmp("recorder-start", directory=work.place("x"))), "started twice")
        time.sleep(0.5)
    qmp("recorder-stop")
    qmp("quit")
    end(process)
    qmp.close()
    for i in range(3):
        work.replay(work.path(f"again-{i}"))


# --- what ends early ------------------------------------------------------------------

@test
def a_guest_that_writes_to_flash_ends_the_recording():
    directory = work.place("flash")
    _, line = work.record(directory, "--run", "devmem 0x1000 8 0; echo on", status=1)
    check("the guest writes to virt.flash0" in line, line)


@contextlib.contextmanager
def debugger(qmp):
    """One that has stopped the guest: a function to send packets, of which "D" lets it go on."""
    def send(*packets):
        for packet in packets:
            gdb.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
            answer = b""
            while not answer.endswith(b"$OK#9a"):
                answer += gdb.recv(1)
                check(b"$E" not in answer, f"{packet}: {answer}")
            if packet != "D":           # then the guest goes on, and its QEMU may have ended
                gdb.sendall(b"+")

    path = work.path("gdb")
    qmp("human-monitor-command",
        **{"command-line": f"gdbserver unix:{path},server=on,wait=off"})
    with socket.socket(socket.AF_UNIX) as gdb:
        gdb.connect(path)               # this stops the guest
        yield send


@contextlib.contextmanager
def busy_guest(name, *args):
    """One that is being recorded: its process, and QMP."""
    path = work.path("qmp")
    process = work.start("record", "-o", work.place(name), "--qmp", path, *args,
                         "--run", "while :; do date; done")
    qmp = Qmp(path, process)
    work.console.wait_for(b"reprise: begin", process)
    yield process, qmp
    qmp.close()


def wait_for_the_end(qmp):
    deadline = time.monotonic() + PATIENCE_S
    while qmp("query-recorder")["return"]["state"] == "recording":
        check(time.monotonic() < deadline, "it does not end")
        time.sleep(0.02)


@test
def a_debugger_that_changes_registers_ends_the_recording():
    with busy_guest("debugger") as (process, qmp):
        with debugger(qmp) as send:
            send(write(1, 0x0102030405060708), "D")
        wait_for_the_end(qmp)
        qmp("quit")
        check(REGISTERS_CHANGED in one_line(end(process, 1)), "?")
    replays_to_its_end("debugger")


@contextlib.contextmanager
def user_loop(name):
    """Four vCPUs that loop in user mode, and are recorded: the tool's process, and QMP."""
    path = work.path("qmp")
    process = work.start("record", "-o", work.place(name), "--qmp", path, "--digest-interval",
                         "1000000000000",
                         *bare_guest.command(BIN, "cortex-a72", 4,
                                             bare_guest.build(work, "USER_LOOP")))
    qmp = Qmp(path, process)
    work.console.wait_for(b"loops", process)
    time.sleep(0.3)
    yield process, qmp
    qmp.close()


def write(register, value):
    """A packet: `register` is gdb's number of it."""
    size = 4 if register == CPSR else 8
    return f"P{register:x}={value.to_bytes(size, 'little').hex()}"


def replays_to_its_end(name):
    """All that was recorded, the registers at the end included."""
    output, line = work.replay(work.path(name))
    check("replayed up to the cut" in line and REGISTERS_CHANGED in line, line)
    return output


@test_each([1, 4])
def a_debugger_that_leads_into_the_kernel_ends_the_recording_there(vcpu):
    """A vCPU in user mode holds nothing of the kernel's memory for sure."""
    symbols = run("aarch64-linux-gnu-nm", bare_guest.build(work, "USER_LOOP")).stdout
    address = {name: int(value, 16) for value, _, name in map(str.split, symbols.splitlines())}
    with user_loop("into-kernel") as (process, qmp):
        with debugger(qmp) as send:
            send(f"Hg{vcpu}", write(PC, address["enter_kernel"]), write(CPSR, EL1),
                 write(SP, address["stack"] + (1 << 16)), "D")
        check(REGISTERS_CHANGED in one_line(end(process, 1)), "another end")
    check(work.console.read().endswith(b"in the kernel\r\n"), "the guest did not go on")
    check(replays_to_its_end("into-kernel") == b"loops\r\n", work.console.read())


@test
def registers_that_are_as_they_were_are_not_changed():
    with user_loop("changed-back") as (process, qmp):
        with debugger(qmp) as send:
            send(write(PC, 0), write(PC, USER_LOOP), "D")
        time.sleep(0.1)
        qmp("quit")
        end(process)
    work.replay(work.path("changed-back"))


@test_each(["recorder-checkpoint", "quit"], long=["recorder-stop"])
def what_comes_after_changed_registers_has_those_before(command):
    """The guest is still paused then."""
    with user_loop("paused") as (process, qmp):
        with debugger(qmp) as send:
            send(write(1, 1))
            answer = qmp(command)
            check("return" in answer or REGISTERS_CHANGED in answer["error"]["desc"], answer)
            if command != "quit":
                wait_for_the_end(qmp)
                qmp("quit")
        check(REGISTERS_CHANGED in one_line(end(process, 1)), "another end")
    check(len(info(work.path("paused"))["checkpoints"]) == 1, "a checkpoint of them")
    replays_to_its_end("paused")


@test_each([1, 2])
def what_a_debugger_writes_to_memory_is_replayed(vcpus):
    with busy_guest("debugger-memory", "--smp", str(vcpus)) as (process, qmp):
        # To the loader's page, which Linux does not use: the end's RAM digest shows it.
        with debugger(qmp) as send:
            send("Qqemu.PhyMemMode:1", "M40000100,8:7265707269736521", "D")
        time.sleep(0.5)
        qmp("quit")
        end(process)
    work.replay(work.path("debugger-memory"))


@test_each([1, 2])
def a_reset_ends_the_recording(vcpus):
    with busy_guest("reset", "--smp", str(vcpus)) as (process, qmp):
        qmp("set-action", reboot="reset")                       # the tool says -no-reboot
        qmp("system_reset")
        wait_for_the_end(qmp)
        qmp("quit")
        check("guest-reset" in one_line(end(process)), "another reason")
    work.replay(work.path("reset"))


@test
def a_recording_that_goes_on_is_not_replayed_yet():
    """What its logs tell changes all the time, and with it where they would be cut."""
    directory = work.path("going-on")
    with busy_guest("going-on", "--smp", "2") as (process, qmp):
        for command in (["replay"], ["debug", "--ask", "when"]):
            said = one_line(run(REPRISE, command[0], directory, *command[1:], status=2).stderr)
            check("is being written: wait until its recorder has ended" in said, said)
        qmp("quit")
        end(process)
    work.replay(directory)


def replay_to_the_cut(directory, shown, at_least):
    """It replays; at least this much of what was shown is shown again."""
    said = info(directory)
    check(said["complete"] is False and said["replayable"], said)
    replayed, line = work.replay(directory)
    check(re.search(r"replayed up to the cut at position 0:\d+ in [\d.]+ s; the recording is not "
                    r"complete", line), line)
    check(shown.startswith(replayed), f"shown:\n{shown}\nreplayed:\n{replayed}")
    check(replayed.startswith(at_least), f"at least:\n{at_least}\nreplayed:\n{replayed}")
    return line


@test_each(["busy", "idle"])
def a_recorder_that_is_killed_loses_a_second_at_most(how):
    directory = work.place(f"killed-{how}")
    run_this = "while :; do date; done" if how == "busy" else "echo now it sleeps; sleep 1000"
    process = work.start("record", "-o", directory, "--run", run_this)
    work.console.wait_for(b"reprise: begin" if how == "busy" else b"now it sleeps", process)
    time.sleep(1)
    before = work.console.read()
    time.sleep(1)
    said = one_line(kill_recorder(process))
    check("was cut off: QEMU ended with signal 9" in said, said)
    replay_to_the_cut(directory, work.console.read(), before)


@test
def a_recording_that_fills_the_disk_replays_as_far_as_it_goes():
    """Every step is logged, and no file may have more than 64 MiB."""
    directory = work.place("full")
    process = work.start("record", "-o", directory, "--digest-interval", "1", "--run", "true",
                         prefix=["sh", "-c", "trap '' XFSZ; ulimit -f 131072; exec \"$@\"", "sh"])
    said = one_line(end(process, 1))
    check("File too large" in said, said)
    check("File too large" in replay_to_the_cut(directory, work.console.read(), b""), "no reason")


@test
def a_recording_that_is_whole_but_not_complete_replays():
    directory = work.copy_of_hello()
    change_manifest(directory, "complete", "false")
    _, line = work.replay(directory)
    check("the recording is not complete: guest-shutdown" in line, line)


@test_each([3], long=[1, 10])
def logs_that_end_anywhere_replay_up_to_there(part):
    directory = work.copy_of_hello()
    change_manifest(directory, "complete", "false")
    order = os.path.join(directory, "vcpu-0.order")
    os.truncate(order, os.path.getsize(order) * part // 11)
    line = replay_to_the_cut(directory, work.hello()[1], b"")
    # The first block may be longer than a small part of the log: then nothing is left.
    check(part < 10 or "position 0:0 " not in line, line)


@test
def a_tool_that_is_killed_leaves_no_qemu_behind():
    process = work.start("record", "-o", work.place("orphan"), "--run", "while :; do date; done")
    work.console.wait_for(b"reprise: begin", process)
    emulator = emulator_of(process)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{emulator}"):
        if "State:\tZ" in open(f"/proc/{emulator}/status").read():
            break                       # of whoever adopts orphans here
        check(time.monotonic() < deadline, "QEMU goes on")
        time.sleep(0.05)
    work.replay(work.path("orphan"))


@test
def a_qemu_that_dies_during_replay_is_status_2():
    process = work.start("replay", work.hello()[0])
    work.console.wait_for(b"reprise:", process)
    kill_emulator(process)
    check("signal 9" in one_line(end(process, 2)), "said otherwise")


# --- divergence ---------------------------------------------------------------------

@test
def other_ram_at_the_end_is_a_divergence():
    directory = work.copy_of_hello()
    change_manifest(directory, "ram-digest", "0" * 32)
    _, line = work.replay(directory, status=1)
    check(line.startswith("reprise: replay diverged: ") and "RAM digest " + "0" * 32 in line, line)


@test
def inputs_of_another_run_are_a_divergence():
    directory = work.copy_of_hello()
    other = work.place("other")
    work.record(other, "--run", "echo hello, too")
    shutil.copy(os.path.join(other, "vcpu-0.data"), directory)
    _, line = work.replay(directory, status=1)
    check("replay diverged: vCPU 0 at position " in line and "expected" in line, line)


main(work)
