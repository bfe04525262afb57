# SPDX-License-Identifier: GPL-2.0-or-later
"""What `reprise record` and `reprise replay` refuse: one line, status 2, nothing harmed."""

import os
import shutil

from tests.lib.checkout import BUILD
from tests.lib.checksum import change_manifest
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, need

work = GuestWorkspace()
# A guest of no use, since it must not start.
QEMU = ["--", "qemu-system-aarch64", "-machine", "virt", "-nodefaults", "-display", "none"]
CPU = ["-cpu", "cortex-a72"]

# In a command line below, this stands for the path of an image of so many bytes.
FLASH = "FLASH"
FLASH_BYTES = 64 << 20


# --- what cannot be recorded ----------------------------------------------------------

CANNOT_RECORD = {
    "too many vCPUs": ([*QEMU, *CPU, "-machine", "gic-version=3", "-smp", "17"], "17 vCPUs"),
    "vCPUs to be hot-plugged": ([*QEMU, *CPU, "-smp", "1,maxcpus=2"], "hot-plugged"),
    "vCPUs in one thread": ([*QEMU, *CPU, "-smp", "2", "-accel", "tcg,thread=single"],
                            "thread=multi"),
    "no such guest": (["--arch", "mips", "--run", "true"], "'mips'"),
    "no such image": (["--image", "nothing", "--run", "true"], "no image"),
    "no such path of an image": (["--image", "./nothing", "--run", "true"], "nothing/aarch64"),
    "a balloon": ([*QEMU, *CPU, "-device", "virtio-balloon-pci,id=fat"], "virtio-balloon"),
    "a hypervisor": ([*QEMU, *CPU, "-machine", "virtualization=on"], "virtualization=off"),
    "a secure world": ([*QEMU, *CPU, "-machine", "secure=on"], "secure=off"),
    "memory tags": ([*QEMU, "-cpu", "max", "-machine", "mte=on"], "mte=off"),
    "semihosting": ([*QEMU, *CPU, "-semihosting"], "semihosting"),
    "memory in parts": ([*QEMU, *CPU, "-m", "64", "-object", "memory-backend-ram,id=m,size=64M",
                         "-numa", "node,memdev=m"], "-numa"),
    "a machine": ([*QEMU, *CPU, "-machine", "raspi3b"], "raspi3b"),
    "firmware": ([*QEMU, *CPU, "-bios", "/dev/null"], "firmware"),
    "firmware on a drive": ([*QEMU, *CPU, "-drive", f"if=pflash,format=raw,file={FLASH}"],
                            "firmware"),
    "a bad option": ([*QEMU, "-nonsense"], "-nonsense"),
    "a bad device": ([*QEMU, *CPU, "-device", "nonsense"], "nonsense"),
    "no QEMU": (["--", "qemu-nothing"], "qemu-nothing"),
    "something else": (["--", "true"], "status 0"),
}


@test_each(CANNOT_RECORD)
def cannot_record(what):
    args, word = CANNOT_RECORD[what]
    flash = work.path("flash")
    with open(flash, "wb") as file:
        file.truncate(FLASH_BYTES)
    args = [arg.replace(FLASH, flash) for arg in args]
    directory = work.place("refused")
    output, line = work.record(directory, *args, status=2)
    check(output == b"" and word in line, f"{output} {line}")
    check(not os.path.exists(directory), "it left something behind")


PC = ["--", "qemu-system-x86_64", "-S", "-nodefaults", "-display", "none", "-machine"]
# What stands in the way on a PC, and what the user is told to change.
CANNOT_RECORD_PC = {
    "system management mode": ([*PC, "q35,smm=on"], "smm=off"),
    "QEMU's code": ([*PC, "q35", "-global", "apic-common.vapic=on"], "apic-common.vapic=off"),
    "a disk of AHCI": ([*PC, "q35", "-drive",
                        "file=null-co://,format=raw,if=none,id=d", "-device", "ide-hd,drive=d"],
                       "ide-hd"),
    "a display": ([*PC, "q35", "-device", "VGA"], "VGA"),
    "firmware on a drive": ([*PC, "q35", "-drive", "if=pflash,format=raw,readonly=on,"
                             f"file={BUILD}/share/qemu/bios-256k.bin"], "firmware in flash"),
    "USB of a microvm": ([*PC, "microvm,usb=on"], "base-xhci"),
    "a machine": ([*PC, "none"], "none"),
}


@test_each(CANNOT_RECORD_PC)
def cannot_record_on_a_pc(what):
    need("x86_64")
    args, word = CANNOT_RECORD_PC[what]
    directory = work.place("refused")
    output, line = work.record(directory, *args, status=2)
    check(output == b"" and word in line, f"{output} {line}")
    check(not os.path.exists(directory), "it left something behind")


@test
def cannot_record_to():
    full = work.place("full")
    os.makedirs(os.path.join(full, "something"))
    for where, word in ((full, "not empty"), ("/proc/nothing", "/proc/nothing"),
                        ("/dev/null", "/dev/null")):
        _, line = work.record(where, *QEMU, *CPU, status=2)
        check(word in line, line)
    check(os.listdir(full) == ["something"], "it was touched")


# --- what cannot be replayed ------------------------------------------------------------

def overwrite(name, offset=None):
    """Changes a byte, in the middle if not told where."""
    def spoil(directory):
        path = os.path.join(directory, name)
        with open(path, "r+b") as file:
            at = os.path.getsize(path) // 2 if offset is None else offset
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
    return spoil


def truncate(name):
    return lambda d: os.truncate(os.path.join(d, name), os.path.getsize(f"{d}/{name}") // 2)


CANNOT_REPLAY = {
    "no directory": (shutil.rmtree, "spoiled"),
    "no manifest": (lambda d: os.unlink(f"{d}/manifest"), "no manifest"),
    "another's manifest": (lambda d: shutil.copy("/etc/passwd", f"{d}/manifest"),
                           "not the manifest"),
    "another version": (lambda d: change_manifest(d, "log-version", "99"), "99"),
    "other patches": (lambda d: change_manifest(d, "patch-level", "0123"), "0123"),
    "another guest": (lambda d: change_manifest(d, "arch", "mips"), "mips"),
    "another machine": (lambda d: change_manifest(d, "type", "nonsense"), "nonsense"),
    "other RAM": (lambda d: change_manifest(d, "ram-size", 1 << 28), "ram"),
    "no log": (lambda d: os.unlink(f"{d}/vcpu-0.order"), "vcpu-0.order"),
    "a damaged log": (overwrite("vcpu-0.order"), "vcpu-0.order"),
    "damaged inputs": (overwrite("vcpu-0.data"), "vcpu-0.data"),
    "a foreign log": (overwrite("vcpu-0.order", 0), "vcpu-0.order"),
    "truncated order": (truncate("vcpu-0.order"), "truncated"),
    "truncated inputs": (truncate("vcpu-0.data"), "truncated"),
    "a changed manifest": (overwrite("manifest"), "manifest: wrong checksum"),
    "a truncated manifest": (truncate("manifest"), "manifest"),
    "no checkpoint": (lambda d: shutil.rmtree(f"{d}/checkpoint-0"), "checkpoint-0"),
    "no checkpoint listed": (lambda d: change_manifest(d, "names", ""), "checkpoint"),
    "no RAM": (lambda d: os.unlink(f"{d}/checkpoint-0/ram"), "checkpoint-0/ram"),
    "damaged RAM": (overwrite("checkpoint-0/ram"), "checkpoint-0/ram"),
    "truncated RAM": (truncate("checkpoint-0/ram"), "checkpoint-0/ram"),
    "no registers": (lambda d: os.unlink(f"{d}/checkpoint-0/cpus"), "checkpoint-0/cpus"),
    "truncated registers": (truncate("checkpoint-0/cpus"), "checkpoint-0/cpus: it is truncated"),
    "damaged registers": (overwrite("checkpoint-0/cpus"), "checkpoint-0/cpus: wrong checksum"),
    "damaged sums": (overwrite("checkpoint-0/sums"), "checkpoint-0/sums: wrong checksum"),
    "no sums": (lambda d: os.unlink(f"{d}/checkpoint-0/sums"), "checkpoint-0/sums"),
    "another CPU": (lambda d: change_manifest(d, "cpu", "cortex-a57,pmu=off"),
                    "checkpoint-0/cpus: it does not fit this CPU model"),
    "other properties": (lambda d: change_manifest(d, "cpu", "cortex-a72"), "CPU model"),
}


@test_each(CANNOT_REPLAY)
def cannot_replay(what):
    spoil, word = CANNOT_REPLAY[what]
    directory = work.copy_of_hello()
    spoil(directory)
    output, line = work.replay(directory, status=2)
    check(output == b"" and word in line, f"{output} {line}")


@test_each(["replay", "debug"])
def an_order_that_was_not_recorded_is_refused(command):
    directory = work.copy_of_hello()
    for order, word in (("karma", "not recorded with the order karma: it has fdr"),
                        ("tso", "unknown order 'tso'")):
        done = run(REPRISE, command, directory, "--order", order, status=2)
        check(done.stdout == "" and word in one_line(done.stderr), done.stderr)


@test
def an_order_that_was_recorded_is_followed():
    work.replay(work.copy_of_hello(), "--order", "fdr")


# --- usage ----------------------------------------------------------------------------

@test
def usage_errors_are_one_line_and_status_2():
    for args, word in ((["record"], "-o"), (["record", "-o", ""], "-o"),
                       (["record", "-o", "x", "y"], "'y'"),
                       (["record", "-o", "x", "--smp", "many"], "--smp"),
                       (["replay", "x", "--threads", "many"], "--threads"),
                       (["record", "-o", "x", "--smp", "-1"], "--smp"),
                       (["record", "-o", "x", "--timeout", "-1"], "--timeout"),
                       (["record", "-o", "x", "--"], "no QEMU"),
                       (["record", "-o", "x", "--mem", "1", "--", "q"], "--mem"),
                       (["record", "-o", "x", "--image", "i", "--", "q"], "--image"),
                       (["replay", "x", "--pause-at-end"], "--qmp")):
        done = run(REPRISE, *args, status=2, cwd=work.directory)
        check(done.stdout == "" and word in one_line(done.stderr), f"{args}: {done.stderr}")


main(work)
