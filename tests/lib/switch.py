# SPDX-License-Identifier: GPL-2.0-or-later
"""An Ethernet switch for guests with `-netdev dgram`, which a thread of the test runs.

    with Switch(work.directory) as switch:
        start(..., *switch.port("primary").arguments(MAC))
        start(..., *switch.port("standby").arguments(MAC))
        ...
        names = [run.port for run in switch.runs(MAC)]      # ["primary", "standby"]

A port is two datagram sockets: the guest's, which its QEMU makes, and the switch's.  The port on
which a frame came is known from the latter, so several ports may have guests of one MAC address.
Frames to a MAC go to the port that it was last seen on, others to all ports.  A frame for a guest
that does not read, or is gone, is lost: the switch never waits.
"""

import array
import collections
import itertools
import os
import re
import selectors
import socket
import struct
import subprocess
import threading
import time

from tests.lib.guest_recording import stock_command
from tests.lib.workspace import Console

FRAME_BYTES = 65536
HEADER_BYTES = 14               # of a frame: destination, source, type
BATCH = 64                      # frames of one port before others have their turn

# The kernel notes when a frame was sent: the switch may read frames of two ports in another order.
SO_TIMESTAMPNS = 35
TIME = struct.Struct("@qq")     # seconds, nanoseconds

# Frames of a MAC that one port sent without one from another between them; when they were sent, by
# time.monotonic().
Run = collections.namedtuple("Run", "port times")


def _clock_offset():
    """Return what turns the kernel's time of a frame into that of time.monotonic().

    It is asked for once, so that it changes no order; the best of some, as the host is busy.
    """
    tries = []
    for _ in range(10):
        before, real, after = time.monotonic(), time.time(), time.monotonic()
        tries.append((after - before, (before + after) / 2 - real))
    return min(tries)[1]


_OFFSET = _clock_offset()


class Port:
    """Where one netdev is plugged in."""

    def __init__(self, name, directory):
        self.name = name
        self.mine, self.guests = (os.path.join(directory, f"{name}.{side}")
                                  for side in ("switch", "guest"))
        self.n_lost = 0         # frames that the guest did not take
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.bind(self.mine)

    def arguments(self, mac):
        """Return QEMU's arguments for a network device here."""
        return ("-netdev", f"dgram,id={self.name},local.type=unix,remote.type=unix,"
                f"local.path={self.guests},remote.path={self.mine}",
                "-device", f"virtio-net-pci,netdev={self.name},mac={mac},romfile=")

    def receive(self):
        """Return a frame and when it was sent; raise BlockingIOError if there is none."""
        frame, ((_, _, data),), _, _ = self.socket.recvmsg(FRAME_BYTES,
                                                           socket.CMSG_SPACE(TIME.size))
        seconds, nanoseconds = TIME.unpack(data)
        return frame, seconds + nanoseconds / 1e9 + _OFFSET

    def send(self, frame):
        """Return false if nobody has the guest's socket; a guest that is slow may lose frames."""
        try:
            self.socket.sendto(frame, self.guests)
        except BlockingIOError:
            self.n_lost += 1
        except OSError:         # there is no file, or no process for it
            self.n_lost += 1
            return False
        return True


class Switch:
    def __init__(self, directory):
        """@directory: for sockets."""
        self.directory = directory
        self._ports = []
        self._port_of = {}      # by MAC, as bytes: where it was seen last
        self._times = {}        # by MAC, as text, and by the port's name: of its frames
        self._lock = threading.Lock()           # of all of these
        self._selector = selectors.DefaultSelector()
        self._end, wake = socket.socketpair()   # closing it ends the thread
        self._selector.register(wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._forward_all, daemon=True)
        self._thread.start()

    def port(self, name):
        """Return a new port."""
        port = Port(name, self.directory)
        with self._lock:
            self._ports.append(port)
        self._selector.register(port.socket, selectors.EVENT_READ, port)
        return port

    def _forward_all(self):
        while True:
            for key, _ in self._selector.select():
                if not key.data:
                    key.fileobj.close()
                    return
                for _ in range(BATCH):
                    try:
                        frame, sent = key.data.receive()
                    except BlockingIOError:
                        break
                    with self._lock:
                        self._forward(key.data, frame, sent)

    def _forward(self, source, frame, sent):
        """Called with the lock held."""
        if len(frame) < HEADER_BYTES:           # QEMU takes an empty one for the end
            return
        mac = frame[6:12]
        self._port_of[mac] = source
        times = self._times.setdefault(mac.hex(":"), {})
        times.setdefault(source.name, array.array("d")).append(sent)
        # Groups, as all, are no source, so they are not found.
        port = self._port_of.get(frame[:6])
        if port is source or (port and port.send(frame)):
            return
        # Its guest was not seen yet, or is gone: another port may have it now.
        for other in self._ports:
            if other not in (source, port):
                other.send(frame)

    def runs(self, mac):
        """Return a list of Run, the latest last: after a clean failover, one of each port."""
        with self._lock:
            frames = sorted((sent, port) for port, times in self._times.get(mac, {}).items()
                            for sent in times)
        return [Run(port, [sent for sent, _ in run])
                for port, run in itertools.groupby(frames, lambda frame: frame[1])]

    def held(self):
        """Return a context in which no frame goes on."""
        return self._lock

    def silence(self, mac, since=None):
        """Return the longest time in seconds without a frame of this MAC, of any port.

        It is looked for between @since, or the first frame, and the last frame.
        """
        times = [t for run in self.runs(mac) for t in run.times if since is None or t >= since]
        if since is not None:
            times.insert(0, since)
        return max((b - a for a, b in zip(times, times[1:])), default=0)

    def close(self):
        self._end.close()
        self._thread.join()
        self._selector.close()
        for port in self._ports:
            port.socket.close()
            os.unlink(port.mine)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class PluggedGuest:
    """A guest that is not recorded; its console's input is the process's."""

    def __init__(self, directory, port, mac, arch, command):
        """@directory: where to put what its console shows."""
        self.console = Console(os.path.join(directory, f"{port.name}.console"))
        with open(self.console.path, "wb") as console:
            self.process = subprocess.Popen(
                [*stock_command(command, arch=arch, boot=("--mem", "128")), *port.arguments(mac)],
                stdin=subprocess.PIPE, stdout=console, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def lines(self):
        return self.console.read().decode().replace("\r", "").splitlines()

    def wait_for(self, word):
        self.console.wait_for(word, self.process)

    def counted(self):
        """Return the last count that a server has shown."""
        counts = re.findall(rb"^count (\d+)\r?\n", self.console.read(), re.M)
        return int(counts[-1]) if counts else 0
