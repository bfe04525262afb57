# SPDX-License-Identifier: GPL-2.0-or-later
"""Record each guest program, and devices at work, and replay: console, registers, RAM identical.

What replay checks itself (register digests, store hashes, RAM
digest) it reports by its exit status; the console is compared here.
"""

import base64
import contextlib
import hashlib
import http.server
import os
import re
import shutil
import threading
import time

from tests.guest import arm32_program, bare_guest
from tests.lib.checkout import BUILD, TOP
from tests.lib.guest_recording import GuestWorkspace, check_race, end, kill_recorder, stock_command
from tests.lib.process import run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, skip, test, test_each
from tests.lib.tool import BIN, REPRISE, info

work = GuestWorkspace()
CHANGE_INPUT = os.path.join(BUILD, "core/tests/tools/change-input")
SMALL = {            # rounds, so that each takes about a second
    "counter": 400, "counters": 10, "faults": 4, "forkstorm": 20, "handoff": 5000,
    "locks": 100000, "logbook": 50000, "pipes": 500, "private": 4, "racey": 100000, "remap": 20,
    "sectors": 2000, "signals": 10, "syscalls": 60, "vectors": 20000,
}
# Those that run in one guest, with as many threads as it has vCPUs.
ALONE = ["counter counters faults logbook", "private remap sectors vectors"]
TOGETHER = ["racey locks forkstorm", "pipes signals syscalls handoff"]


def cycle(name, command, *qemu_args, changes=(), smp=1, options=()):
    """Record `command` in a guest with more devices, replay; the console."""
    args = list(stock_command(command, smp))
    for old, new in changes:
        args[args.index(old)] = new
    directory = work.place(name)
    recorded, _ = work.record(directory, *options, "--", *args, *qemu_args)
    check(b"reprise: end status=0" in recorded, recorded.decode(errors="replace"))
    replayed, said = work.replay(directory)
    check("replayed identically" in said, said)
    check(replayed == recorded, f"recorded:\n{recorded}\nreplayed:\n{replayed}")
    return recorded.decode(errors="replace")


def kill_and_replay(process, directory):
    """What a replay up to the cut shows, and what was shown before the recorder was killed."""
    kill_recorder(process)
    recorded = work.console.read()
    replayed, said = work.replay(directory)
    check("replayed up to the cut" in said and recorded.startswith(replayed), said)
    return replayed, recorded


@test
def every_program_is_here():
    sources = os.listdir(os.path.join(TOP, "tests/guest"))
    programs = {f[:-2] for f in sources if f.endswith(".c")} - {"guest"}
    check(programs == set(SMALL), f"{programs ^ set(SMALL)}")
    check(sorted(" ".join([*ALONE, *TOGETHER]).split()) == sorted(SMALL), "one is never run")


@test_each(ALONE)
def programs_on_one_vcpu_replay_identically(programs):
    cycle("one", " && ".join(f"{program} -n {SMALL[program]}" for program in programs.split()))


DISK_WORK = ("dd if=/dev/urandom of=/dev/vda bs=64k count=32 2>/dev/null; sync; "
             "echo 3 > /proc/sys/vm/drop_caches; md5sum /dev/vda")


@test_each(["mmio", "pci iothread"], long=["pci"])
def disk_replays_identically(how):
    """The disk is gone when the recording is replayed."""
    disk = work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(16 << 20)
    bus = "pci" if "pci" in how else "device"
    iothread = ["-object", "iothread,id=io"] if "iothread" in how else []
    cycle(f"disk-{bus}", DISK_WORK, *iothread,
          "-drive", f"file={disk},if=none,id=d,format=raw",
          "-device", f"virtio-blk-{bus},drive=d" + (",iothread=io" if iothread else ""))
    os.remove(disk)


@test
def a_recorder_that_is_killed_while_a_disk_works_replays_to_the_cut():
    disk, directory = work.path("disk"), work.place("disk-killed")
    with open(disk, "wb") as file:
        file.truncate(16 << 20)
    process = work.start("record", "-o", directory, "--",
                         *stock_command(f"while :; do {DISK_WORK}; done"),
                         "-drive", f"file={disk},if=none,id=d,format=raw",
                         "-device", "virtio-blk-pci,drive=d")
    work.console.wait_for(b"  /dev/vda", process)
    time.sleep(1)
    replayed, recorded = kill_and_replay(process, directory)
    check(b"  /dev/vda" in replayed, replayed)
    os.remove(disk)


@test
def random_numbers_replay_identically():
    cycle("rng", "dd if=/dev/hwrng bs=32 count=4 2>/dev/null | md5sum", "-device", "virtio-rng-pci")


@test_each(["pci", "device"])
def console_replays_identically(bus):
    """A virtio console, both ways; its input is gone in the replay."""
    typed, shown = (work.path(name) for name in ("typed", "shown"))
    with open(typed, "w") as file:
        for _ in range(300):
            print(os.urandom(30).hex(), file=file)
    digest = run("md5sum", typed).stdout.split()[0]
    console = cycle(f"console-{bus}",
                    "exec 3<>/dev/hvc0; stty raw -echo <&3; echo said >&3; "
                    "head -n 300 <&3 | md5sum",
                    "-chardev", f"file,id=c,path={shown},input-path={typed}",
                    "-device", f"virtio-serial-{bus}", "-device", "virtconsole,chardev=c")
    check(digest in console, console)
    with open(shown, "rb") as file:
        check(b"said" in file.read(), "it said nothing")
    os.remove(typed)


@test
def fw_cfg_dma_replays_identically():
    """Linux tells the host where its crash notes are, by DMA of the device fw_cfg."""
    cycle("fw_cfg", "ls /sys/firmware/qemu_fw_cfg/by_name/etc/vmcoreinfo", "-device", "vmcoreinfo")
    dump = run(REPRISE, "dump", work.path("fw_cfg"), "--dma").stdout
    check("dma-write" in dump, f"there was no DMA:\n{dump}")


@contextlib.contextmanager
def server_on_this_host():
    """How a guest gets a file from it, and the file's digest; it is gone in the replay."""
    body = os.urandom(200000)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield ("ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; "
           f"wget -q -O - http://10.0.2.2:{server.server_port}/f | md5sum",
           hashlib.md5(body).hexdigest())
    server.shutdown()


NETWORK = ("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n")


@test
def network_replays_identically():
    with server_on_this_host() as (command, digest):
        console = cycle("network", command, *NETWORK)
    check(digest in console, console)


@test_each(["virt,gic-version=3"], long=["virt,gic-version=3,its=off"])
def machine_replays_identically(machine):
    cycle("machine", "forkstorm -n 5", changes=(("virt", machine),))


def bare_command(cpu, smp, mode="ALL"):
    return bare_guest.command(BIN, cpu, smp, bare_guest.build(work, mode))


@test_each(["cortex-a72", "cortex-a76", "max", "cortex-a76 smp", "cortex-a76 smp slow-path"])
def bare_guest_replays_identically(how):
    """Page walks that write, memory attributes, instructions of newer CPUs, under interrupts."""
    cpu, *words = how.split()
    options = ["--slow-path"] if "slow-path" in words else []
    directory = work.place("bare-guest")
    recorded, _ = work.record(directory, *options,
                              *bare_command(cpu, 2 if "smp" in words else 1))
    bare_guest.check_console(recorded.decode())
    if "smp" in words:
        check_race(directory)
    for cache in ("x-tlb-bits=6", "x-tlb-bits=12", "one-insn-per-tb=on"):
        replayed, said = work.replay(directory, "--", "-accel", f"tcg,thread=multi,{cache}")
        check("replayed identically" in said, said)
        check(replayed == recorded, f"{cache}: recorded:\n{recorded}\nreplayed:\n{replayed}")


# What the patches of tcg/ make it generate, in hexadecimal.
L1_TEST = ("906b7138[13579bdf]0....36|"         # ldrb w16, [x28, x17]; tbz w16, #0 or #1
           "48c1ee0641f604370[12]0f84")     # shr $6, %rsi; testb $1 or $2, (%r15,%rsi); je


@test
def the_l1_test_is_in_generated_code():
    """With two vCPUs, unless told otherwise; if not, everything works, but slowly."""
    def tests_in_code(vcpus, *options):
        path = work.path("code")
        work.record(work.place("l1-test"), *options, *bare_command("cortex-a72", vcpus),
                    "-d", "out_asm", "-D", path)
        with open(path) as file:
            code = "".join(re.findall(r"^OBJD-H: (\w+)$", file.read(), re.M))
        check(code, "no code is shown")
        return len(re.findall(L1_TEST, code))

    check(tests_in_code(2) > 100, "no test")
    check(tests_in_code(2, "--slow-path") == 0, "a test in spite of --slow-path")
    check(tests_in_code(1) == 0, "a test for one vCPU")


@test_each([1, 2])
def an_access_to_a_device_and_to_memory_ends_the_recording(vcpus):
    _, line = work.record(work.place("mixed"), *bare_command("cortex-a72", vcpus, "MIXED"),
                          status=1)
    check("lies in memory and in a device" in line, line)


# The last: what is not the default must be so in the replay, too.
CPUS = ["cortex-a57", "max,pmu=off,sve-max-vq=2,sme=off,lpa2=off,pauth-impdef=on"]
MORE_CPUS = ["cortex-a76,pmu=off", "neoverse-n1", "max"]


@test_each(CPUS, long=MORE_CPUS)
def cpu_model_replays_identically(cpu):
    cycle("cpu", "forkstorm -n 5", changes=(("cortex-a72,pmu=off", cpu),))


@test
def a_32_bit_program_replays_identically():
    program = base64.b64encode(arm32_program.elf()).decode()
    console = cycle("arm32", f"echo {program} | base64 -d >/tmp/a && chmod +x /tmp/a && /tmp/a")
    check(f"\n{arm32_program.RESULT}\r" in console, console)


# --- several vCPUs ------------------------------------------------------------------------

@test_each(TOGETHER)
def programs_on_four_vcpus_replay_identically(programs):
    cycle("smp", " && ".join(f"{p} -t 4 -n {max(1, SMALL[p] // 4)}" for p in programs.split()),
          smp=4)


@work.shared
def raced(i):
    """The console of a race of four vCPUs; its recording is `racey-i`."""
    return cycle(f"racey-{i}", "racey -t 4 -n 20000", smp=4)


@test
def races_differ_and_replay_identically():
    """The same program three times; its result depends on who is first."""
    consoles = [raced(i) for i in range(3)]
    signatures = {re.search(r"signature=(\w+)", console).group(1) for console in consoles}
    check(len(signatures) == 3, signatures)


def change_an_interrupt(directory):
    """A copy, in which one near the end, in the race, is another exception."""
    spoiled = shutil.copytree(directory, work.place("spoiled"),
                              ignore=shutil.ignore_patterns("*.order", "*.data"))
    steps = int(info(directory)["end_point"].split(",")[0].split(":")[1])
    run(CHANGE_INPUT, directory, spoiled, "interrupt", str(steps * 9 // 10))
    return spoiled


def cores_of_vcpus(qmp):
    """On which cores each vCPU's thread may run."""
    return [os.sched_getaffinity(vcpu["thread-id"]) for vcpu in qmp("query-cpus-fast")["return"]]


@test
def vcpus_are_not_pinned_to_cores_after_a_divergence():
    """While they are replayed they are, if there are more of them than cores."""
    cores = set(sorted(os.sched_getaffinity(0))[:2])
    if len(cores) < 2:
        skip("there is only one core")
    raced(0)
    path = work.path("qmp")
    process = work.start("replay", change_an_interrupt(work.path("racey-0")), "--qmp", path,
                         "--until", "0", "--pause-at-end",
                         prefix=["taskset", "-c", ",".join(map(str, cores))])
    qmp = Qmp(path, process)
    qmp.replay_from_here(work.path("spoiled"))
    pinned = []
    while not qmp.named("RECORDER_REPLAYED"):
        pinned += [own for own in cores_of_vcpus(qmp) if own < cores]
        time.sleep(0.01)
    # vCPU 0 has another exception; what follows from it may be noticed on any of them first.
    check("at position" in qmp.event("RECORDER_DIVERGED")["divergence"], "it is another one")
    check(pinned, "none was pinned while it was replayed")
    check(cores_of_vcpus(qmp) == [cores] * 4, f"they still are: {cores_of_vcpus(qmp)}")
    qmp("quit")
    end(process)                # as the first replay did, which was of nothing
    qmp.close()


@test
def eight_vcpus_with_gicv3_replay_identically():
    cycle("gicv3", "racey -t 8 -n 5000", smp=8, changes=(("virt", "virt,gic-version=3"),))


@test
def every_access_on_the_slow_path_replays_identically():
    cycle("slow", "racey -t 2 -n 5000 && forkstorm -t 2 -n 2", smp=2, options=["--slow-path"])


@test
def devices_of_two_vcpus_replay_identically():
    disk = work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(4 << 20)
    with server_on_this_host() as (command, digest):
        console = cycle("devices", f"({DISK_WORK}) & {command}; wait", *NETWORK, "-drive",
                        f"file={disk},if=none,id=d,format=raw", "-device", "virtio-blk-pci,drive=d",
                        smp=2)
    check(digest in console and "  /dev/vda" in console, console)
    os.remove(disk)


@test
def cortex_a76_with_four_vcpus_replays_identically():
    """It sets flags in page tables by itself, and has atomic instructions."""
    cycle("a76", "forkstorm -t 4 -n 2 && locks -t 4 -n 5000", smp=4,
          changes=(("cortex-a72,pmu=off", "cortex-a76,pmu=off"),))


@test
def a_recorder_of_four_vcpus_that_is_killed_replays_to_the_cut():
    """Three vCPUs sleep, while others wait for what they did before."""
    directory = work.place("smp-killed")
    process = work.start("record", "-o", directory, "--smp", "4", "--run",
                         "racey -t 4 -n 5000; while :; do date; sleep 0.1; done")
    work.console.wait_for(b" UTC ", process)
    time.sleep(1)
    before = work.console.read()
    time.sleep(1)
    replayed, recorded = kill_and_replay(process, directory)
    check(replayed.startswith(before), f"recorded:\n{recorded}\nreplayed:\n{replayed}")


@test
def traces_of_several_vcpus_are_the_same():
    directory, trace = work.place("traced"), work.place("trace")
    work.record(directory, "--smp", "2", "--digest-interval", "100000", "--run",
                "forkstorm -t 2 -n 1")
    work.replay(directory, "--trace", trace, "--trace-interval", "50000")
    said = run(REPRISE, "compare", directory, trace).stdout
    check(all(f"vCPU {i}" in said for i in range(2)), said)


main(work)
