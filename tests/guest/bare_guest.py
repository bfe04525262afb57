# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests without an operating system, bare/*: how they are built and started."""

import base64
import gzip
import os

from tests.lib.checkout import TOP
from tests.lib.process import run
from tests.lib.tap import check

TESTS = ["flags", "attributes", "bases", "random", "waits", "copies", "vector-code", "own-code",
         "race", "interrupts"]


def build(workspace, mode="ALL", source="bare.c"):
    """Return the path of a kernel, which is built once."""
    path = workspace.path(f"{source}-{mode}")
    if os.path.exists(path):
        return path
    run("aarch64-linux-gnu-gcc", "-O1", "-ffreestanding", "-nostdlib", "-static", "-fno-pie",
        "-no-pie", "-mgeneral-regs-only", "-Wall", "-Wextra", "-Werror", "-Wl,-Ttext=0x40200000",
        "-Wl,--build-id=none", f"-DMODE={mode}", f"{TOP}/tests/guest/bare/{source}", "-o", path)
    return path


def command(bin_directory, cpu, smp, kernel, memory_mib=128, pmu="off", gic=2):
    return ["--", f"{bin_directory}/qemu-system-aarch64", "-nodefaults", "-m", str(memory_mib),
            "-machine", f"virt,gic-version={gic}", "-cpu", f"{cpu},pmu={pmu}", "-smp", str(smp),
            "-display", "none", "-serial", "stdio", "-kernel", kernel]


NARROW = ["-m32", "-Wl,-m,elf_i386"]
WIDE = ["-mno-red-zone", "-mcmodel=kernel"]


def build_x86(workspace, source, others=0, mode="ALL"):
    """The same for x86/*, which run on a PC, with so many other vCPUs."""
    path = workspace.path(f"{source}-{mode}-{others}")
    if os.path.exists(path):
        return path
    run("x86_64-linux-gnu-gcc", "-O1", "-ffreestanding", "-nostdlib", "-static", "-fno-pie",
        "-no-pie", "-mgeneral-regs-only", *(NARROW if source == "narrow.c" else WIDE), "-Wall",
        "-Wextra", "-Werror", "-Wl,-Ttext=0x200000", "-Wl,--build-id=none",
        f"-DN_OTHERS={others}", f"-DMODE={mode}", f"{TOP}/tests/guest/bare/x86/{source}", "-o",
        path)
    return path


def small_program(workspace, source, *flags):
    """Return a program of x86/* for x86_64 Linux, in words that make it run in a guest's shell."""
    path = workspace.path(source.removesuffix(".c"))
    run("x86_64-linux-gnu-gcc", *flags, "-Os", "-s", "-ffreestanding", "-nostdlib", "-static",
        "-fno-pie", "-no-pie", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
        "-fno-ident", "-Wall", "-Wextra", "-Werror", "-Wl,--build-id=none", "-Wl,-N",
        "-Wl,--no-warn-rwx-segments", f"{TOP}/tests/guest/bare/x86/{source}", "-o", path)
    with open(path, "rb") as file:
        program = base64.b64encode(gzip.compress(file.read(), mtime=0)).decode()
    return f"echo {program} | base64 -d | gunzip >/run/p && chmod +x /run/p && /run/p"


def program32(workspace):
    return small_program(workspace, "program32.c", "-m32")


def x86_command(bin_directory, kernel, cpu="max", smp=1, machine="q35", memory_mib=128):
    return ["--", f"{bin_directory}/qemu-system-x86_64", "-nodefaults", "-m", str(memory_mib),
            "-machine", machine, "-cpu", cpu, "-smp", str(smp), "-display", "none",
            "-serial", "stdio", "-kernel", kernel]


def check_console(text, tests=TESTS):
    """Every test has said something, and none that a rule was broken."""
    lines = [line.split() for line in text.splitlines()]
    check([words[0] for words in lines] == tests, text)
    check(not any("bad" in words for words in lines), text)
