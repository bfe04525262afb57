# SPDX-License-Identifier: GPL-2.0-or-later
"""A debugger at the edges of a recording: its first instruction, and a checkpoint that is gone."""

import os
import re
import shutil
import socket
import struct

from tests.lib.debug_session import start_debug
from tests.lib.guest_recording import GuestWorkspace, stock_command
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test
from tests.lib.tool import info
from tests.lib.workspace import PATIENCE_S

work = GuestWorkspace()
PC = 32                         # its number among the registers that gdb asks for


class Remote:
    """A client of gdb's protocol that does what it is told: a gdb steps over breakpoints itself."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE_S)
        self.socket.connect(path)
        self.read = b""

    def __call__(self, packet):
        data = packet.encode()
        self.socket.sendall(b"+$%s#%02x" % (data, sum(data) % 256))
        while not (answer := re.search(rb"\$([^#]*)#..", self.read)):
            more = self.socket.recv(65536)
            check(more, "QEMU has closed the connection")
            self.read += more
        self.read = self.read[answer.end():]
        self.socket.sendall(b"+")
        return answer.group(1).decode()


def moment(qmp):
    return qmp("query-recorder")["return"]["moment"]


@test
def a_breakpoint_on_the_first_instruction_is_hit():
    gdb, path = work.path("gdb"), work.path("qmp")
    session = start_debug(work, work.hello()[0], "--socket", gdb, "--qmp", path)
    qmp, remote = Qmp(path, session.process), Remote(gdb)
    first = qmp("query-recorder")["return"]["first-moment"]
    check(moment(qmp) == first, "it does not begin at the start")
    check(remote("?").startswith("T05"), "no stop")
    pc, = struct.unpack_from("<Q", bytes.fromhex(remote("g")), PC * 8)
    check(remote(f"Z0,{pc:x},4") == "OK", "no breakpoint")
    check(remote("c").startswith("T05"), "no stop")
    check(moment(qmp) == first, f"passed: {moment(qmp)}")
    # The next one goes on.
    check(remote("c").startswith("T05"), "no stop")
    check(moment(qmp) > first, "stuck")
    remote.socket.close()
    qmp.close()
    session.end()


@test
def a_debugger_that_cannot_go_back_says_so_and_goes_on():
    directory, path = work.place("lost"), work.path("qmp")
    work.record(directory, "--checkpoint-interval", "0.3", "--",
                *stock_command("racey -t 2 -n 20000", smp=2))
    names = info(directory)["checkpoints"]
    check(len(names) >= 2, "too few checkpoints")
    session = start_debug(work, directory, "--at", "end", "--qmp", path)
    qmp = Qmp(path, session.process)
    at_end = qmp("query-recorder-digests")["return"]
    file = os.path.join(directory, names[0], "cpus")
    shutil.move(file, file + ".away")
    refused = qmp("recorder-goto", at="start").get("error", {}).get("desc", "")
    check("cannot go back to moment" in refused and "cpus" in refused, refused)
    check(not qmp("query-status")["return"]["running"], "it runs")
    check("error" not in qmp("recorder-goto", at="end"), "it cannot go on")
    check(qmp("query-recorder-digests")["return"] == at_end, "the end is another")
    shutil.move(file + ".away", file)
    check("error" not in qmp("recorder-goto", at="start"), "it cannot go back")
    check(moment(qmp) == qmp("query-recorder")["return"]["first-moment"], "another moment")
    qmp.close()
    check("cannot go back to moment" in session.end(), "nothing on stderr")


main(work)
