# SPDX-License-Identifier: GPL-2.0-or-later
"""A standby that goes on with the guest when the QEMU that records it is killed."""

import contextlib
import fcntl
import os
import random
import re
import signal
import subprocess
import time

from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.process import one_line, run, wait_until
from tests.lib.qmp import Qmp
from tests.lib.standby import STANDBY, Conversation, Disk, Protected, Standby, drive
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.tool import REPRISE, emulator_of

work = GuestWorkspace()
COUNT = ("i=0; while :; do i=$((i+1)); echo line $i at $(cut -d' ' -f1 /proc/uptime) end; "
         "sleep 0.02; done")


def protect(name, arch="aarch64", *options, run_this=COUNT, smp=1, more=()):
    guest = Protected(work.directory, work.place(name), arch, run_this, *options, smp=smp,
                      more=more)
    after_test(guest.stop)
    return guest


def stand_by(guest, *options, command=None):
    standby = Standby(work.directory, guest, *options, command=command)
    after_test(standby.stop)
    return standby


def empty_disk(name):
    image = work.path(f"{name}.raw")
    with open(image, "wb") as file:
        file.truncate(4 << 20)
    return image


def lines(shown):
    """The numbers and the times of the guest's lines that are whole."""
    return [(int(n), float(t)) for n, t in re.findall(rb"line (\d+) at ([\d.]+) end", shown)]


def check_count(seen, hand_over):
    """No line is lost; those of the epoch that was being released may come twice."""
    numbers = [n for n, _ in lines(seen)]
    twice = len(numbers) - len(set(numbers))
    check(sorted(set(numbers)) == list(range(1, max(numbers) + 1)), f"lines are lost: {numbers}")
    check(twice < 10, f"{twice} lines came twice, around {hand_over}")
    times = [t for _, t in sorted(lines(seen))]
    check(times == sorted(times), f"time goes back: {times}")
    check(max(b - a for a, b in zip(times, times[1:])) < 5, f"time jumps: {times}")


@test
def a_standby_goes_on_counting():
    guest = protect("counts", smp=2)
    standby = stand_by(guest, "--release", "verified")
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > 20)
    check(not standby.shown(), "the standby shows something")
    time.sleep(random.random() / 2)
    guest.kill()
    check("was cut off" in guest.said(1), "what it said")
    seen = guest.shown()
    wait_until("the standby does not go on", lambda: len(lines(standby.shown())) > 20)
    check_count(seen + standby.shown(), seen[-100:])
    standby.process.terminate()
    said = one_line(standby.said(0))
    check("it goes on here, behind epoch" in said, said)
    # What the dead QEMU has left is a recording as others that were cut off.
    run(REPRISE, "verify", guest.directory)
    replayed, said = work.replay(guest.directory)
    check("not complete" in said and replayed.startswith(seen), said)


@test
def a_client_does_not_notice():
    """It counts with the server over one connection, which moves to the standby."""
    talk = Conversation(work.directory, work.place("server"), "x86_64", 50, 0.02, 200)
    print(f"# median {talk.median_ms} ms, longest {talk.longest_ms} ms, silent for "
          f"{talk.silent_s:.2f} s")


@test_each(["aarch64"], long=["x86_64"])
def what_was_written_down_is_on_the_disk(arch):
    """And nothing else: the standby goes on with the disk that the guest had then."""
    Conversation(work.directory, work.place("writer"), arch, 50, random.random() / 10, 120,
                 Disk(work.directory))


@test_each(["aarch64 2", "x86_64 1"])
def the_disk_is_of_the_same_moment_as_memory(how):
    """The guest compares them all the time."""
    arch, smp = how.split()
    image = empty_disk("sectors")
    guest = protect(f"sectors-{arch}", arch, run_this=f"sectors -d /dev/vda {smp} 1000000",
                    smp=int(smp), more=drive(image, arch))
    standby = stand_by(guest, command=[*guest.command, *drive(image, arch, STANDBY)])
    wait_until("nothing is released", lambda: b"round 500" in guest.shown())
    time.sleep(random.random() / 5)
    guest.kill()
    wait_until("the standby does not go on", lambda: standby.shown().count(b"round") > 10)
    check(b"is not of version" not in guest.shown() + standby.shown(), standby.shown())
    standby.stop()
    os.remove(image)


@test
def a_disk_is_left_alone_while_it_is_protected():
    """Afterwards it is as any other, and the guest goes on with it and ends in order."""
    image = empty_disk("alone")
    guest = protect("alone", run_this="sectors -d /dev/vda 1 1000000",
                    more=drive(image, "aarch64"))
    qmp = Qmp(guest.qmp_of_test, guest.process)
    wait_until("it is not recorded", lambda: qmp("query-recorder")["return"].get("epochs", 0) > 2)
    requests = [("block_resize", {"device": "d", "size": 1 << 20}),
                ("blockdev-snapshot-sync", {"device": "d", "snapshot-file": work.path("more"),
                                            "format": "qcow2"})]
    for command, arguments in requests:
        said = qmp(command, **arguments)["error"]["desc"]
        check("a standby must find what the guest writes" in said, said)
    check(qmp("recorder-stop") == {"return": {}}, "it does not stop")
    leftovers = [name for name in os.listdir(guest.directory) if name.startswith("disks-")]
    check(not leftovers, leftovers)
    before = guest.shown().count(b"round")
    wait_until("the guest does not go on", lambda: guest.shown().count(b"round") > before + 10)
    check(b"is not of version" not in guest.shown(), guest.shown()[-300:])
    check(qmp("block_resize", device="d", size=8 << 20) == {"return": {}}, "resize")
    qmp("quit")
    qmp.close()
    guest.said(0)
    check(os.path.getsize(image) == 8 << 20, "it was not resized")


@test
def a_disk_that_somebody_else_has_is_not_taken_over():
    """Somebody has started the guest's usual QEMU again, which has locked it."""
    image = empty_disk("locked")
    guest = protect("locked", run_this="sectors -d /dev/vda 1 1000000",
                    more=drive(image, "aarch64", ",format=raw,file.locking=off"))
    standby = stand_by(guest, command=[*guest.command, *drive(image, "aarch64", STANDBY)])
    wait_until("nothing is released", lambda: b"round 500" in guest.shown())
    path = work.path("usual.qmp")
    usual = subprocess.Popen([*guest.command, "-S", *drive(image, "aarch64"), "-qmp",
                              f"unix:{path},server=on,wait=off"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after_test(usual.communicate)
    after_test(usual.kill)
    Qmp(path, usual).close()
    guest.kill()
    said = one_line(standby.said(1))
    check("another process uses the image of a disk" in said, said)
    check(not standby.shown(), "it went on")


@test
def a_disk_of_its_own_is_refused():
    """The standby's must be the guest's, and raw."""
    images = [empty_disk(name) for name in ("one", "two")]
    guest = protect("disks", more=drive(images[0], "aarch64"))
    other = stand_by(guest, command=[*guest.command, *drive(images[1], "aarch64")])
    said = one_line(other.said(2))
    check("writes other disks" in said and "file.locking=off" in said, said)
    said = run(REPRISE, "live", guest.directory, "--", *guest.command,
               *drive(images[0], "aarch64", STANDBY), status=2).stderr
    check("is no part of its checkpoints" in one_line(said), said)
    said = run(REPRISE, "protect", "-o", work.place("no"), "--qmp", work.path("no.qmp"), "--",
               *stock_command("true"), "-blockdev", "driver=null-co,node-name=d,size=1048576",
               "-device", "virtio-blk-device,drive=d", status=2).stderr
    check("give it a raw image" in one_line(said), said)


@test
def a_standby_that_ends_can_be_replaced():
    """Without one nothing is released; the next one begins at the last checkpoint."""
    guest = protect("replaced", "aarch64", "--checkpoint-interval", "0.5")
    first = stand_by(guest)
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > 5)
    first.process.terminate()
    check("until there is another one" in first.said(2), "what it said")
    seen = guest.shown()
    time.sleep(1)
    check(guest.shown() == seen, "something is released")
    second = stand_by(guest)
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > len(lines(seen)) + 5)
    guest.kill()
    check("was cut off" in guest.said(1), "what it said")
    seen = guest.shown()
    wait_until("the standby does not go on", lambda: len(lines(second.shown())) > 20)
    check_count(seen + second.shown(), seen[-100:])


@test
def a_guest_that_ends_needs_no_standby():
    guest = protect("ends", run_this="echo all of it")
    standby = stand_by(guest)
    said = one_line(standby.said(0))
    check("the guest has ended; it was replayed identically" in said, said)
    check("guest-shutdown" in guest.said(0), "the recording")
    check(b"all of it" in guest.shown() and not standby.shown(), "what is shown")


@test
def two_of_a_guest_never_run():
    """The recorder is alive: nobody can make the standby go on, nor the loss of the connection."""
    guest = protect("alive")
    path = work.path("standby.qmp")
    standby = stand_by(guest, "--qmp", path)
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > 5)
    qmp = Qmp(path, standby.process)
    answer = qmp("recorder-take-over", released=0)
    check("the recorder still runs" in answer["error"]["desc"], answer)
    qmp.close()
    os.kill(emulator_of(guest.process), signal.SIGSTOP)
    time.sleep(1)
    check(standby.process.poll() is None and not standby.shown(), "it went on")
    os.kill(emulator_of(guest.process), signal.SIGCONT)
    n = len(lines(guest.shown()))
    wait_until("the guest does not go on", lambda: len(lines(guest.shown())) > n + 5)


@test
def a_recording_that_fails_is_not_taken_over():
    """Its guest goes on by itself."""
    guest = protect("fails")
    standby = stand_by(guest)
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > 5)
    os.rename(guest.directory, guest.directory + ".moved")
    said = one_line(standby.said(1))
    check("the recording has ended" in said and "without a standby" in said, said)
    check(not standby.shown(), "it went on")


@test
def what_cannot_be_a_standby_is_refused():
    guest = protect("refusing")
    other = stand_by(guest, command=[*guest.command, "-device", "virtio-rng-pci,id=more"])
    said = one_line(other.said(2))
    check("this machine has other devices" in said and "more" in said, said)
    other = stand_by(guest, command=stock_command(COUNT, smp=2))
    said = one_line(other.said(2))
    check("has 1 vCPUs, and this machine 2" in said, said)
    directory = guest.directory
    guest.directory = work.path("elsewhere")
    os.symlink(work.hello()[0], guest.directory)
    said = one_line(stand_by(guest).said(2))
    check("is not protected in" in said, said)
    guest.directory = directory
    guest.qmp = work.path("nobody")
    said = one_line(stand_by(guest).said(2))
    check("cannot connect to" in said, said)


@test
def a_guest_that_is_being_turned_off_is_turned_off():
    """Wherever it is killed on its way: it is off in the end, and its last lines are shown."""
    for delay in (0, 0.05):
        guest = protect("off", run_this="seq 200; echo all of it")
        standby = stand_by(guest, "--qmp", work.path("off.qmp"))
        qmp = Qmp(guest.qmp_of_test, guest.process)
        qmp.event("SHUTDOWN")
        time.sleep(delay)
        emulator = emulator_of(guest.process)
        with contextlib.suppress(ProcessLookupError):
            if emulator:                    # else it has ended by itself
                os.kill(emulator, signal.SIGKILL)
        qmp.close()
        standby.said(0)
        check(b"all of it" in guest.shown() + standby.shown(), "what is shown")


@test
def only_one_standby_takes_over():
    """Two follow the guest, each over a socket of its own."""
    guest = protect("twice")
    standbys = []
    for name, primary in ("one", guest.qmp), ("two", guest.qmp_of_test):
        place = work.place(name)
        os.makedirs(place)
        guest.qmp = primary
        standbys.append(Standby(place, guest))
        after_test(standbys[-1].stop)
    wait_until("nothing is released", lambda: len(lines(guest.shown())) > 5)
    guest.kill()
    wait_until("none goes on", lambda: any(lines(s.shown()) for s in standbys))
    wait_until("both go on", lambda: any(s.process.poll() is not None for s in standbys))
    loser, = [s for s in standbys if s.process.poll() is not None]
    check("another standby has" in one_line(loser.said(1)), "what it said")
    check(not loser.shown(), "it shows something")


@test
def what_was_not_read_comes_from_the_standby():
    """The console's reader has stopped: what was released, but not taken, is not lost."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
    guest = Protected(work.directory, work.place("blocked"), "aarch64",
                      COUNT.replace("sleep 0.02", ":"), stdout=write_end)
    after_test(guest.stop)
    os.close(write_end)
    standby = stand_by(guest)
    qmp = Qmp(guest.qmp_of_test, guest.process)
    wait_until("the reader does not block it", lambda: qmp("query-recorder")["return"].get(
        "held-bytes", 0) > 10000)
    qmp.close()
    guest.kill()
    wait_until("the standby does not go on", lambda: len(lines(standby.shown())) > 20)
    seen = b""
    while part := os.read(read_end, 65536):
        seen += part
    os.close(read_end)
    check(3000 < len(seen) < 9000, f"{len(seen)} bytes were taken")
    numbers = [n for n, _ in lines(seen + standby.shown())]
    check(sorted(set(numbers)) == list(range(1, max(numbers) + 1)), f"lines are lost: {numbers}")


@test_each([["-object", "iothread,id=t"], ["-netdev", "user,id=u", "-device", "virtio-rng-pci",
            "-device", "virtio-net-pci,netdev=u,romfile="],
            ["-chardev", "file,id=second,path=/dev/null", "-device", "virtio-serial-pci",
             "-device", "virtconsole,chardev=second"]])
def what_cannot_be_protected_is_refused(arguments):
    said = run(REPRISE, "protect", "-o", work.place("no"), "--qmp", work.path("no.qmp"), "--",
               *stock_command("true"), *arguments, status=2).stderr
    check("standby" in one_line(said), said)


@test_each([["--primary", "s", "--release", "never", "--", "q"], ["--", "q"], ["--primary", "s"],
            ["--primary", "s", "--"]])
def bad_options_are_refused(options):
    said = one_line(run(REPRISE, "standby", "d", *options, status=2).stderr)
    check(said.startswith("reprise: standby: ") and "see reprise --help" in said, said)


main(work)
