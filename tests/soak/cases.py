# SPDX-License-Identifier: GPL-2.0-or-later
"""What the soak runs: a case is a name, a function, whether the host is busy, and whether others
like it may run beside it.

A function gets a Recording with the case's name, makes it, replays it, and
raises Failure if anything is not as it was; what it returns is kept as a note
for later cases.  These are the long bars of one-vCPU recording, smp.py has those
of several; shorter versions of them are in `make check`.
"""

import contextlib
import functools
import glob
import hashlib
import http.server
import os
import random
import re
import shutil
import subprocess
import threading
from collections import namedtuple

from tests.lib.checkout import TOP
from tests.soak.guest import PLACE, Failure, Recording

Case = namedtuple("Case", "name function busy together", defaults=(False,))

CYCLES = 200
STRESS_S = 5
SLOW_S = 1800                   # one instruction per TB

# Each is the name of a stressor and of the option that starts it.
STRESSORS = ["cpu", "vm", "fork", "pipe", "futex", "switch", "mmap", "signal", "timer", "fault",
             "brk", "sem", "poll", "clone"]
DISK_STRESSORS = ["hdd", "iomix", "sync-file", "readahead", "dentry", "io"]
# What these take by themselves is too much for this guest or for five seconds.
SIZED = ("mmap", "vm", "hdd", "iomix", "sync-file", "readahead")
SIZE = "16m"

MAKE_DISK = "mke2fs /dev/vda >/dev/null && mkdir -p /disk && mount -t ext4 /dev/vda /disk"
USE_DISK = (f"{MAKE_DISK} && dd if=/dev/urandom of=/disk/a bs=64k count=128 && "
            "cp /disk/a /disk/b && sync && echo 3 >/proc/sys/vm/drop_caches && "
            "cmp /disk/a /disk/b && umount /disk && syscalls -n 50")


# --- devices ----------------------------------------------------------------------------

@contextlib.contextmanager
def disk(device="virtio-blk-pci", more=""):
    """QEMU's arguments for an empty disk, which the guest formats."""
    path = os.path.join(PLACE, "disk.raw")
    with open(path, "wb") as file:
        file.truncate(256 << 20)
    try:
        yield ["-drive", f"file={path},format=raw,if=none,id=disk",
               "-device", f"{device},drive=disk{more}"]
    finally:
        os.unlink(path)


@contextlib.contextmanager
def served(content):
    """The port of an HTTP server on this host that has one file."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


# --- the cases --------------------------------------------------------------------------

def simple(run, *arguments):
    def function(recording):
        recording.record(run, arguments=arguments)
        recording.replay()
    return function


def on_a_disk(device="virtio-blk-pci", more="", arguments=()):
    def function(recording):
        with disk(device, more) as drive:
            recording.record(USE_DISK, arguments=[*arguments, *drive])
        recording.replay()
    return function


PACKAGES = {"stress": "stress-ng", "hackbench": "rt-tests"}


@functools.lru_cache
def image_with(name, arch="aarch64"):
    """The name of an image that has one more package."""
    subprocess.run([f"{TOP}/images/build", "--arch", arch, "--package", PACKAGES[name],
                    "--name", name], stdout=subprocess.DEVNULL, check=True)
    return name


def stress_command(stressor, workers, path=None, seconds=STRESS_S):
    run = f"stress-ng --{stressor} {workers} --timeout {seconds} --metrics-brief"
    if stressor in SIZED:
        run += f" --{stressor}-bytes {SIZE}"
    return f"{run} --temp-path {path}" if path else run


def check_stress(stressor, output):
    """Its metrics: operations, perhaps none on a busy host, and seconds."""
    if not re.search(rb"metrc: \[\d+\] " + stressor.encode() + rb" +\d+ +[1-9]", output):
        raise Failure(f"stress-ng did not run {stressor}: {output.decode(errors='replace')}")


def stress(stressor, has_disk):
    """One worker: there is one vCPU.  stress-ng itself ends with status 0 only if it ran."""
    def function(recording):
        run = stress_command(stressor, 1, "/disk" if has_disk else None)
        with disk() if has_disk else contextlib.nullcontext([]) as drive:
            if has_disk:
                run = f"{MAKE_DISK} && {run} && umount /disk"
            output = recording.record(run, image=image_with("stress"), arguments=drive)
        check_stress(stressor, output)
        recording.replay()
    return function


def network(device):
    """A download through QEMU's own network; what arrived is what was sent."""
    def function(recording):
        content = random.randbytes(1 << 20)
        with served(content) as port:
            output = recording.record(
                "ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && "
                f"wget -q -O /tmp/file http://10.0.2.2:{port}/file && sha256sum /tmp/file",
                arguments=["-netdev", "user,id=net", "-device", f"{device},netdev=net"])
        if hashlib.sha256(content).hexdigest().encode() not in output:
            raise Failure(f"the download is damaged: {output[-400:].decode(errors='replace')}")
        recording.replay()
    return function


@functools.lru_cache
def shared():
    """A recording that the variants share while the soak runs."""
    recording = Recording("variants", SLOW_S)
    shutil.rmtree(recording.directory, ignore_errors=True)
    recording.record("syscalls -n 50")
    return recording


def variant(accelerator):
    """Another replay of the shared recording."""
    def function(recording):
        # Linked, so that a failure keeps its own copy under its own name.
        shutil.copytree(shared().directory, recording.directory, copy_function=os.link)
        shutil.copy(shared().path("console"), recording.path("console"))
        recording.patience = SLOW_S
        recording.replay("-accel", f"tcg,thread=multi,{accelerator}")
    return function


GICV3 = ("-machine", "gic-version=3")
IOTHREAD = ("-object", "iothread,id=io")


def programs():
    return sorted(os.path.basename(f)[:-2] for f in glob.glob(f"{TOP}/tests/guest/*.c")
                  if not f.endswith("/guest.c"))


def one_vcpu_cases():
    """Short and varied first, the long row of cycles last."""
    cases = [(f"program-{name}", simple(f"{name} && {name} -t 4")) for name in programs()]
    cases += [
        ("machine-gicv3", simple("syscalls -n 50", *GICV3)),
        *((f"machine-{cpu}", simple("syscalls -n 50", "-cpu", f"{cpu},pmu=off"))
          for cpu in ("cortex-a57", "cortex-a76", "neoverse-n1", "max")),
        ("machine-disk", on_a_disk()),
        ("machine-mmio", on_a_disk("virtio-blk-device")),
        ("machine-iothread", on_a_disk(more=",iothread=io", arguments=IOTHREAD)),
        ("machine-all", on_a_disk("virtio-blk-device", ",iothread=io",
                                  (*GICV3, *IOTHREAD, "-cpu", "cortex-a57,pmu=off"))),
        ("network-pci", network("virtio-net-pci,romfile=")),
        ("network-mmio", network("virtio-net-device")),
        ("variant-tb-size-8", variant("tb-size=8")),
        ("variant-tb-size-512", variant("tb-size=512")),
        ("variant-one-insn", variant("one-insn-per-tb=on")),
        ("variant-tlb-64", variant("x-tlb-bits=6")),
        ("variant-tlb-65536", variant("x-tlb-bits=16")),
    ]
    cases += [(f"stress-{name}", stress(name, False)) for name in STRESSORS]
    cases += [(f"stress-{name}", stress(name, True)) for name in DISK_STRESSORS]
    result = [Case(name, function, False) for name, function in cases]
    result += [Case(f"cycle-{i:03}", simple("syscalls"), True) for i in range(1, CYCLES + 1)]
    return result
