# SPDX-License-Identifier: GPL-2.0-or-later
"""What images/build and images/symbols share: guest architectures, and Debian's packages for them.

Packages come through scripts/private-apt, whatever this machine is, and are read as archives.
"""

import dataclasses
import os
import pathlib
import signal
import subprocess
import urllib.parse

SOURCE = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("REPRISE_BUILD") or SOURCE / "build")

SUITE = "bookworm"


@dataclasses.dataclass(frozen=True)
class Arch:
    name: str               # as in qemu-system-NAME and in compilers
    debian: str             # as in Debian packages
    compiler_package: str   # cross compiler, with its C library
    libc_package: str

    @property
    def kernel_package(self):
        return f"linux-image-cloud-{self.debian}"


ARCHES = {arch.name: arch for arch in (
    Arch("aarch64", "arm64", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"),
    Arch("x86_64", "amd64", "gcc-x86-64-linux-gnu", "libc6-dev-amd64-cross"),
)}


class BuildError(Exception):
    """One line for the user."""


class TooSlow(BuildError):
    pass


def private_apt(arch, *command, directory=None, within_s=None):
    """What an apt command prints; it is given up after within_s seconds."""
    program, *arguments = command
    # Always the same list of architectures, lest private-apt fetch its package
    # lists anew each time. The guest's own comes first only here: it decides
    # which architecture the dependencies are taken from.
    # A session of its own: apt has children, and to stop it is to stop them.
    process = subprocess.Popen(
        [SOURCE / "scripts" / "private-apt", "-a", "amd64,arm64", SUITE, program, "-qq",
         "-o", f"APT::Architecture={arch.debian}", *arguments],
        cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True)
    with process:
        try:
            said, complaints = process.communicate(timeout=within_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGTERM)
            if isinstance(error, subprocess.TimeoutExpired):
                raise TooSlow(f"Debian {SUITE}, {arch.debian}: {program} took too long") from None
            raise
    if process.returncode:
        lines = complaints.splitlines()
        reason = next((line for line in lines if line.startswith(("private-apt: ", "E: "))),
                      lines[-1] if lines else f"{program} failed")
        raise BuildError(f"Debian {SUITE}, {arch.debian}: {reason.removeprefix('E: ')}")
    return said


def package_of(deb):
    """(name, version, architecture) of a package's file name."""
    name, version, architecture = urllib.parse.unquote(deb.removesuffix(".deb")).split("_")
    return name, version, architecture
