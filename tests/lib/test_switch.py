# SPDX-License-Identifier: GPL-2.0-or-later
"""The switch between guests, and the program `counter`, which talks through it."""

import contextlib
import os
import re
import socket
import time

from tests.lib.switch import PluggedGuest, Switch
from tests.lib.tap import after_test, check, main, skip, test, test_each
from tests.lib.tool import built_arches
from tests.lib.workspace import Workspace

work = Workspace()
PATIENCE_S = 60
BROADCAST = "ff:ff:ff:ff:ff:ff"
SERVER_MAC, CLIENT_MAC = "52:54:00:00:00:01", "52:54:00:00:00:02"
ADDRESS = "10.0.2.1"
PORT = 7000                     # of the server that tells the truth; those that lie have the next
# What the client says of each lie of a server.
LIES = {
    "skip": 'the answer is "100 101" instead of "100 100"',
    "repeat": 'the answer is "100 99" instead of "100 100"',
    "restart": 'the answer is "100 1" instead of "100 100"',
    "stale": 'the answer is "99 100" instead of "100 100"',
    "close": "the server closed the connection at request 100",
    "silent": "no answer to request 100 in 2 s",
}


# --- the switch alone ----------------------------------------------------------------------------

class Plug:
    """In a port, in the place of a QEMU."""

    def __init__(self, switch, name, mac):
        self.mac = mac
        self.port = switch.port(name)
        self.plug_in()

    def plug_in(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.settimeout(PATIENCE_S)
        self.socket.bind(self.port.guests)
        after_test(self.socket.close)

    def pull(self, leave_file):
        """As a QEMU that is killed, which leaves the socket's file, or one that ends."""
        self.socket.close()
        if not leave_file:
            os.unlink(self.port.guests)

    def send(self, mac, text):
        self.socket.sendto(bytes.fromhex((mac + self.mac).replace(":", "")) + b"\x88\xb5" + text,
                           self.port.mine)

    def receive(self):
        return self.socket.recv(65536)[14:]


def plugs(**macs):
    """Return a switch and a plug for each name."""
    directory = work.place("switch")
    os.makedirs(directory)
    switch = Switch(directory)
    after_test(switch.close)
    return switch, *(Plug(switch, name, mac) for name, mac in macs.items())


@test
def frames_go_where_their_address_was_seen():
    _, a, b, c = plugs(a="02:00:00:00:00:0a", b="02:00:00:00:00:0b", c="02:00:00:00:00:0c")
    a.send(BROADCAST, b"to all")
    a.send(b.mac, b"to b, which is not known")
    for plug in b, c:
        check(plug.receive() == b"to all", "a broadcast")
        check(plug.receive() == b"to b, which is not known", "an unknown address")
    b.send(a.mac, b"to a")
    check(a.receive() == b"to a", "a frame for a")
    a.send(b.mac, b"to b")
    a.send(BROADCAST, b"to all again")
    check(b.receive() == b"to b", "a frame for b")
    for plug in b, c:
        check(plug.receive() == b"to all again", "c got a frame for a or b")
    # It is plugged in elsewhere: frames follow its last one.
    c.mac = b.mac
    c.send(a.mac, b"b is here")
    check(a.receive() == b"b is here", "a frame of the new b")
    a.send(b.mac, b"to the new b")
    check(c.receive() == b"to the new b", "a frame for the new b")


@test
def nobody_waits_for_a_guest_that_does_not_read():
    _, a, b, c = plugs(a="02:00:00:00:00:0a", b="02:00:00:00:00:0b", c="02:00:00:00:00:0c")
    for i in range(1000):
        a.send(BROADCAST, b"%d" % i)
        check(c.receive() == b"%d" % i, f"frame {i}")
    check(900 < b.port.n_lost < 1000, f"{b.port.n_lost} frames were lost")
    for i in range(1000 - b.port.n_lost):
        check(b.receive() == b"%d" % i, f"frame {i} was not kept")
    a.send(BROADCAST, b"reads again")
    check(b.receive() == b"reads again", "it got nothing more")


@test_each(["killed", "ended"])
def nobody_waits_for_a_guest_that_has(ended):
    _, a, b, c = plugs(a="02:00:00:00:00:0a", b="02:00:00:00:00:0b", c="02:00:00:00:00:0c")
    b.send(BROADCAST, b"here")
    check(a.receive() == c.receive() == b"here", "a broadcast")
    b.pull(leave_file=ended == "killed")
    a.send(b.mac, b"where is b?")
    check(c.receive() == b"where is b?", "a frame for a guest that is gone")
    # It comes again, at the same port.
    if ended == "killed":
        os.unlink(b.port.guests)
    b.plug_in()
    b.send(a.mac, b"here again")
    check(a.receive() == b"here again", "a frame of the guest that came again")
    a.send(b.mac, b"good")
    check(b.receive() == b"good", "a frame for the guest that came again")


@test
def it_tells_which_port_sent_when():
    mac = "02:00:00:00:00:0a"
    switch, a, b, c = plugs(a=mac, b=mac, c="02:00:00:00:00:0c")

    def send(plug, times):
        for _ in range(times):
            plug.send(c.mac, b"")
            c.receive()

    def runs():
        return [(run.port, len(run.times)) for run in switch.runs(mac)]

    check(not runs() and not switch.silence(mac), "it was heard before it spoke")
    before = time.monotonic()
    send(a, 3)
    a.pull(leave_file=True)
    since = time.monotonic()
    time.sleep(0.3)
    send(b, 2)
    check(runs() == [("a", 3), ("b", 2)], runs())
    first, second = switch.runs(mac)
    check(before <= first.times[0] <= first.times[-1] <= since < second.times[0], "times")
    check(switch.silence(mac) >= switch.silence(mac, since) >= 0.3, switch.silence(mac))
    check(switch.silence(mac, second.times[0]) < switch.silence(mac), "an old silence")
    os.unlink(a.port.guests)
    a.plug_in()
    a.socket.sendto(b"too short", a.port.mine)
    send(a, 1)
    check(runs() == [("a", 3), ("b", 2), ("a", 1)], "two guests of one address at a time")


@test
def frames_are_told_in_the_order_in_which_they_were_sent():
    """However late, and in which order, they were read."""
    mac = "02:00:00:00:00:0a"
    switch, a, b = plugs(a=mac, b=mac)
    with switch.held():
        for plug in b, a, b, b, a, a:
            plug.send(BROADCAST, b"")
    a.send(BROADCAST, b"the last one")
    while b.receive() != b"the last one":
        pass
    runs = [(run.port, len(run.times)) for run in switch.runs(mac)]
    check(runs == [("b", 1), ("a", 1), ("b", 2), ("a", 3)], runs)


# --- guests --------------------------------------------------------------------------------------

def network(address):
    return f"ip addr add {address}/24 dev eth0; ip link set eth0 up; "


SERVES = (network(ADDRESS) + f"counter serve -e 100 {PORT} & " +
          "".join(f"counter serve -l {lie} {PORT + i} & " for i, lie in enumerate(LIES, 1)) +
          "wait")
TAKES_OVER = f"echo waits; read -r go < /dev/console; {network(ADDRESS)} counter serve {PORT}"
ASKS = (network("10.0.2.2") + f"counter ask {ADDRESS} {PORT} 2s; echo status $?; " +
        "".join(f"counter ask -p {2 if lie == 'silent' else PATIENCE_S} {ADDRESS} {PORT + i} 1000; "
                f"echo {lie} status $?; " for i, lie in enumerate(LIES, 1)) +
        f"counter ask {ADDRESS} {PORT} {PATIENCE_S}s; echo end status $?")


def before(mark, lines):
    """Return the line before that one."""
    check(mark in lines, f"{mark!r} is not in {lines}")
    return lines[lines.index(mark) - 1]


@work.shared
def conversation():
    """Return the lines of the client and of its first server, the switch, and when the latter was
    killed."""
    arches = built_arches()
    if not arches:
        skip("no emulator was built")
    directory = work.place("guests")
    os.makedirs(directory)
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(Switch(directory))

        def start(name, mac, arch, command):
            return stack.enter_context(PluggedGuest(directory, switch.port(name), mac, arch,
                                                    command))

        server = start("first", SERVER_MAC, arches[0], SERVES)
        client = start("client", CLIENT_MAC, arches[-1], ASKS)
        second = start("second", SERVER_MAC, arches[-1], TAKES_OVER)
        client.wait_for(b"\nsilent status")
        second.wait_for(b"\nwaits")
        counted, deadline = server.counted(), time.monotonic() + PATIENCE_S
        while server.counted() <= counted + 100:
            check(time.monotonic() < deadline, f"nothing is asked: {client.lines()}")
            time.sleep(0.02)
        server.kill()
        killed = time.monotonic()
        second.process.stdin.write(b"\n")
        second.process.stdin.flush()
        client.wait_for(b"reprise: end")
        return client.lines(), server.lines(), switch, killed


@test
def the_client_counts_with_the_server():
    said, server, *_ = conversation()
    result = re.fullmatch(r"counter: answers=(\d+) first=1 last=(\d+) median_ms=(\d+\.\d+) "
                          r"longest_ms=(\d+\.\d+)", before("status 0", said))
    check(result and result[1] == result[2], said)
    answers, median, longest = int(result[1]), float(result[3]), float(result[4])
    check(median <= longest, said)
    check(f"counter: serves port {PORT}" in server, server)
    counts = [int(line.split()[1]) for line in server if line.startswith("count ")]
    check(counts == list(range(100, 100 * len(counts) + 1, 100)), counts)
    check(len(counts) >= answers // 100, f"{answers} answers, {counts}")
    print(f"# {answers} answers in 2 s, median {median} ms, longest {longest} ms")


@test_each(LIES)
def the_client_notices_a_lie(lie):
    said = conversation()[0]
    check(before(f"{lie} status 1", said) == f"counter: {LIES[lie]}", said)


@test
def the_client_notices_a_server_that_begins_anew():
    said, _, switch, killed = conversation()
    check(re.fullmatch(r"counter: the connection failed at request \d+: Connection reset by peer",
                       before("end status 1", said)), said)
    ports = [run.port for run in switch.runs(SERVER_MAC)]
    check(ports == ["first", "second"], ports)
    check({run.port for run in switch.runs(CLIENT_MAC)} == {"client"}, "the client's port")
    print(f"# silent for {switch.silence(SERVER_MAC, killed):.2f} s")


main(work)
