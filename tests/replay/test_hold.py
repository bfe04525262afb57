# SPDX-License-Identifier: GPL-2.0-or-later
"""Output that is held until its epoch is released: consoles and networks."""

import contextlib
import os
import random
import re
import socket
import subprocess
import threading
import time

from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder, stock_command
from tests.lib.process import one_line, run, wait_until
from tests.lib.qmp import Qmp
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.tool import REPRISE, need, stop_tool

work = GuestWorkspace()
PATIENCE_S = 120
COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done"
# Ping number i has i bytes.  Nobody answers, but to ARP.
PING = ("ip addr add 10.0.2.15/24 dev eth0; ip link set eth0 up; "
        "until ip neigh | grep -q lladdr; do ping -c 1 -W 1 -s 0 10.0.2.2 >/dev/null; done; "
        "i=0; while :; do i=$((i+1)); echo line $i; "
        "ping -c 1 -W 1 -s $i 10.0.2.2 >/dev/null & sleep 0.05; done")


def point_of(directory, epoch):
    """The moment at which an epoch has ended."""
    with open(os.path.join(directory, "epochs"), encoding="ascii") as file:
        words = file.read().splitlines()[epoch].split()
    places = [int(place.split(":")[1]) for place in words[5].split(",")]
    return sum(places) + int(words[7])


def start(directory, qmp_path, *args):
    recorder = work.start("record", "-o", directory, "--epochs=50", "--qmp", qmp_path, *args)
    return recorder, Qmp(qmp_path, recorder)


def held(qmp):
    """0 before the recording has begun, too."""
    return qmp("query-recorder")["return"].get("held-bytes", 0)


@test_each(["x86_64"], long=["aarch64"])
def a_console_shows_what_was_released(arch):
    """Exactly what a replay up to the end of that epoch shows, and no more if QEMU is killed."""
    need(arch)
    directory = work.place(f"console-{arch}")
    recorder, qmp = start(directory, work.path("qmp"), "--hold", "--arch", arch, "--smp", "2",
                          "--run", COUNT)
    rand, released = random.Random(arch), []

    def info():
        return qmp("query-recorder")["return"]

    def settled():
        """The console, once nothing comes any more."""
        seen = None
        while seen != work.console.read():
            seen = work.console.read()
            time.sleep(0.5 + rand.random())
        return seen

    wait_until("so much is never held", lambda: held(qmp) > 10000)
    check(work.console.read() == b"", "it was not held")
    check("has not ended" in qmp("recorder-release", epoch=10 ** 6)["error"]["desc"], "too early")
    for _ in range(4):
        epoch = info()["epochs"] - rand.randrange(3)
        check("return" in qmp("recorder-release", epoch=epoch), f"epoch {epoch}")
        check(info()["released"] == epoch, info())
        released.append((epoch, settled()))
    check(b"line 1" in released[-1][1], released[-1][1])
    qmp.close()
    kill_recorder(recorder)
    check(work.console.read() == released[-1][1], "more was seen")
    for epoch, seen in released:
        shown, said = work.replay(directory, "--until", str(point_of(directory, epoch)))
        check("replayed up to moment" in said, said)
        check(shown == seen, f"epoch {epoch}: seen:\n{seen}\nreplayed:\n{shown}")


class Network:
    """Where the guest's packets come out, which a thread takes as they come: their numbers."""

    def __init__(self):
        self.mine, self.guests = work.path("mine"), work.path("guests")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.mine)
        self.n_packets, self.pings = 0, []
        threading.Thread(target=self.receive, daemon=True).start()

    def arguments(self):
        return ("-netdev", "dgram,id=n,local.type=unix,remote.type=unix,"
                f"local.path={self.guests},remote.path={self.mine}",
                "-device", "virtio-net-pci,netdev=n,romfile=")

    def answer(self, request):
        """We have the address that is asked for."""
        mac = b"\x52\x55\x0a\x00\x02\x02"
        self.socket.sendto(request[6:12] + mac + request[12:20] + b"\x00\x02" + mac +
                           request[38:42] + request[22:32], self.guests)

    def receive(self):
        while True:
            packet = self.socket.recv(65536)
            self.n_packets += 1
            if packet[12:14] == b"\x08\x06" and packet[38:42] == b"\x0a\x00\x02\x02":
                self.answer(packet)
            # IPv4, ICMP, echo request; the headers have 20 and 8 bytes.
            if packet[12:14] == b"\x08\x00" and packet[23] == 1 and packet[34] == 8:
                self.pings.append(int.from_bytes(packet[16:18], "big") - 28)


@test
def packets_are_seen_after_their_epoch():
    """None before the line that was printed before it, none twice, none out of order, none lost."""
    need("x86_64")
    directory, network = work.place("network"), Network()
    recorder, qmp = start(directory, work.path("qmp"), "--hold", "--", *stock_command(
        PING, smp=2, arch="x86_64"), *network.arguments())

    def lines():
        return len(re.findall(rb"^line \d+\r?$", work.console.read(), re.M))

    def releases():
        """Release, and return true when enough was seen."""
        time.sleep(0.1)
        qmp("recorder-release", epoch=qmp("query-recorder")["return"]["epochs"])
        newest = max(network.pings, default=0)
        wait_until(f"packet {newest} came before its line", lambda: newest <= lines())
        return newest > 30

    wait_until("nothing is sent", lambda: held(qmp) > 1000)
    time.sleep(3)
    check(not network.n_packets, "a packet was not held")
    check(not work.console.read(), "the console was not held")
    wait_until("few packets", releases)
    time.sleep(1)
    n_released = network.n_packets
    time.sleep(2)                       # more than the socket takes at once
    check(network.n_packets == n_released, "a packet was not held")
    answer = qmp("device_add", driver="virtio-rng-pci", id="new")
    check("while output is held" in answer["error"]["desc"], answer)
    # The end of the recording releases the rest, and the guest goes on.
    check(qmp("recorder-stop") == {"return": {}}, "recorder-stop")
    wait_until("the rest is not seen", lambda: network.n_packets > n_released + 100)
    pings = [number for number in network.pings if number]
    check(pings == list(range(1, len(pings) + 1)), pings)
    qmp("quit")
    end(recorder)
    _, said = work.replay(directory)
    check("replayed identically" in said, said)


@test
def a_guest_pauses_while_too_much_is_held():
    need("x86_64")
    directory = work.place("full")
    recorder, qmp = start(directory, work.path("qmp"), "--hold=8K", "--arch", "x86_64", "--smp",
                          "2", "--run", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); "
                          "echo line $i line line line line; done")
    with contextlib.suppress(ConnectionError, KeyError):        # until the guest has ended
        while True:
            # What a paused guest has done is in an epoch, so it can be released.
            if qmp("query-status")["return"]["status"] == "paused":
                check(held(qmp) > 4096, "it could go on")
                qmp("recorder-release", epoch=qmp("query-recorder")["return"]["epochs"])
            time.sleep(0.01)
    end(recorder)
    check(len(qmp.named("STOP")) > 3, qmp.events)
    output = work.console.read()
    check(b"line 2000 line" in output, output)
    work.check_replay(directory, output)


@test_each(["aarch64"], long=["x86_64"])
def a_follower_releases_what_it_has_compared(arch):
    need(arch)
    directory, path = work.place(f"verified-{arch}"), work.path("qmp")
    recorder = work.start("record", "-o", directory, "--epochs=50", "--hold", "--qmp", path,
                          "--arch", arch, "--smp", "1", "--run",
                          "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo line $i; sleep 0.02; "
                          "done")
    console = work.console
    wait_until("there is no recorder", lambda: os.path.exists(path) and
               os.path.exists(os.path.join(directory, "manifest")))
    follower = subprocess.Popen([REPRISE, "replay", "--follow", directory, "--release", path],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)
    after_test(stop_tool, follower, PATIENCE_S)
    wait_until("nothing is released", lambda: b"line 1" in console.read())
    check(recorder.poll() is None, "it was released by the end")
    end(recorder)
    said = one_line(follower.communicate(timeout=PATIENCE_S)[1].decode())
    check("replayed identically" in said, said)
    output = console.read()
    check(b"line 200" in output, output)
    work.check_replay(directory, output)


@test
def what_cannot_be_held_is_refused():
    disk = work.path("disk")
    with open(disk, "wb") as file:
        file.truncate(1 << 20)
    stock = stock_command("true", arch="x86_64")
    for args, wrong in (
            (["--hold", "--", *stock], "give --epochs, too"),
            (["--epochs", "--hold=0x", "--", *stock], "a size, such as 64M"),
            (["--epochs", "--hold", "--", *stock, "-drive", f"file={disk},format=raw,if=none,id=d",
              "-device", "virtio-blk-pci,drive=d"], "writes to disk d would be seen at once"),
            (["--epochs", "--hold", "--", *stock, "-net", "nic,model=virtio-net-pci", "-net",
              "user"], "sent to a hub: give -netdev")):
        new = work.place("refused")
        said = run(REPRISE, "record", "-o", new, *args, status=2).stderr
        check(wrong in said, said)
        check(not os.path.exists(os.path.join(new, "manifest")), f"{args}: it was recorded")
    directory = work.hello()[0]
    said = run(REPRISE, "replay", directory, "--release", disk, status=2).stderr
    check("--release needs --follow" in said, said)


@test
def what_is_not_held_is_not_released():
    path = work.path("qmp")
    recorder, qmp = start(work.place("plain"), path, "--run", COUNT)
    wait_until("it is not recorded", lambda: "epochs" in qmp("query-recorder")["return"])
    answer = qmp("recorder-release", epoch=1)
    check("no output is held" in answer["error"]["desc"], answer)
    check("held-bytes" not in qmp("query-recorder")["return"], "held-bytes")
    qmp.close()
    said = run(REPRISE, "replay", "--follow", work.path("plain"), "--release", "/nonexistent",
               status=2).stderr
    check("/nonexistent" in said and len(said.splitlines()) == 1, said)
    kill_recorder(recorder)


main(work)
