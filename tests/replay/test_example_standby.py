# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/example-standby.md: a server is killed, and its client does not notice.

The document's own commands are run, each in a shell of the terminal whose name is before its "$ ".
They have a network of their own.  What else is in its indented blocks must then be shown in one of
the terminals: "…" stands for anything, a number for any.
"""

import os
import re
import signal
import subprocess

from tests.lib.checkout import BUILD, TOP
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import wait_until
from tests.lib.tap import after_test, check, main, need_root, skip, test
from tests.lib.tool import BIN, need

work = GuestWorkspace()
DOCUMENT = os.path.join(TOP, "docs/example-standby.md")
COMMAND = re.compile(r"(\w+)\$ (.*)")
PATIENCE_S = 120
SETS_UP = "host"                # the terminal whose commands end before the next one is typed


def goes_on(found):
    """Whether the last command is not whole yet."""
    terminal, text = found[-1] if found else (None, "")
    return terminal and (text.endswith("\\") or ("<<'END'" in text and
                                                 not text.endswith("\nEND")))


def steps():
    """(terminal, command), or (None, what is shown), in order."""
    found = []
    with open(DOCUMENT, encoding="utf-8") as file:
        for line in file:
            command = COMMAND.fullmatch(line[4:].rstrip("\n"))
            if not line.startswith("    ") or line.strip() == "…":
                continue
            if goes_on(found):
                found[-1] = found[-1][0], found[-1][1] + "\n" + line[4:].rstrip("\n")
            elif command:
                found.append(command.groups())
            else:
                found.append((None, line.strip()))
    return found


class Terminal:
    """A shell in a network that it has made, or in that of another one."""

    def __init__(self, name, place, network=None):
        self.path = work.path(f"{name}.terminal")
        prefix = (["nsenter", "-t", str(network), "-n"] if network else ["unshare", "--net"])
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen(
                [*prefix, "bash"], stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                cwd=place, start_new_session=True,
                env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"})
        after_test(self._end)
        self.n = 0

    def _end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()

    def type(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()

    def do(self, command):
        """Return when it has ended."""
        self.n += 1
        self.type(f"{command}\necho done {self.n} $?")
        wait_until(f"it does not end: {command}", lambda: f"\ndone {self.n} " in self.shown())
        status = int(re.search(rf"\ndone {self.n} (\d+)", self.shown())[1])
        check(status == 0 or (status == 1 and "e2fsck" in command), f"{command}:\n{self.shown()}")

    def shown(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return "\n" + file.read().replace("\r", "")


@test
def the_client_does_not_notice():
    need("aarch64")
    need_root()
    if not os.path.exists("/dev/net/tun"):
        skip("this host has no tap interfaces")
    place = work.place("example")
    os.makedirs(place)
    os.symlink(BUILD, os.path.join(place, "build"))
    terminals = {SETS_UP: Terminal(SETS_UP, place)}
    network = terminals[SETS_UP]
    network.do("ip link set lo up")
    for name, text in steps():
        print(f"# {name}: {text}")
        if name is None:
            pattern = re.compile(re.sub(r"\d+", r"\\d+", re.escape(text).replace("…", ".*")))
            wait_until(f"nobody shows: {text}", lambda: any(
                pattern.search(terminal.shown()) for terminal in terminals.values()), PATIENCE_S)
        elif name == SETS_UP:
            network.do(text)
        else:
            if name not in terminals:
                terminals[name] = Terminal(name, place, network.process.pid)
            terminals[name].type(text)
            socket = re.search(r"--qmp (\S+)", text)
            if socket:
                wait_until("it does not start", lambda: os.path.exists(
                    os.path.join(place, socket[1])))
    check("wrong" not in terminals["client"].shown(), terminals["client"].shown())
    check("it goes on here" in terminals["second"].shown(), terminals["second"].shown())


main(work)
