# SPDX-License-Identifier: GPL-2.0-or-later
"""The line that `reprise record` and `reprise replay` show on a terminal while they work."""

import os
import pty
import re
import subprocess

from tests.lib.guest_recording import GuestWorkspace
from tests.lib.tap import check, main, test
from tests.lib.tool import REPRISE, need

work = GuestWorkspace()
DRAWN = re.compile(rb"\r([^\r\n]*)\033\[K")


def on_terminal(*args, console=None, term="xterm"):
    """What the terminal got: of stderr, and of the console unless that goes to a file."""
    need("aarch64")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([REPRISE, *args], stdin=subprocess.DEVNULL, stdout=console or theirs,
                               stderr=theirs, env={**os.environ, "TERM": term})
    os.close(theirs)
    text = b""
    try:
        while True:
            text += os.read(ours, 65536)
    except OSError:                     # nobody has the other side any more
        pass
    os.close(ours)
    check(process.wait() == 0, text)
    return text


def what_remains(text):
    """As somebody sees it at the end: the guest's \\r\\n has become \\r\\r\\n."""
    return DRAWN.sub(b"", text).replace(b"\r", b"")


def shown(text, word):
    """The lines that told of progress; each was removed."""
    lines = [line for line in DRAWN.findall(text) if line]
    check(lines and all(word in line for line in lines), lines)
    check(DRAWN.findall(text)[-1] == b"", "the last one was not removed")
    check(all(len(line) < 80 for line in lines), lines)
    return lines


@work.shared
def told():
    """A recording of some seconds, and what the terminal got."""
    directory = work.place("told")
    with open(work.console.path, "wb") as console:
        text = on_terminal("record", "-o", directory, "--timeout", "6",
                           "--run", "while :; do date; done", console=console)
    return directory, text


@test
def a_recording_tells_how_large_it_is():
    _, text = told()
    lines = shown(text.replace(b"ending the recording", b"recording, ending"), b"recording")
    check(any(re.search(rb": \d+ s, [\d.]+ MiB, [\d.]+ MiB/s$", line) for line in lines) or
          any(len(line) == 79 for line in lines), lines)
    check(re.fullmatch(rb"reprise: recorded [^\n]*\n", what_remains(text)), what_remains(text))


@test
def a_replay_tells_how_far_it_is():
    with open(work.console.path, "wb") as console:
        text = on_terminal("replay", told()[0], console=console)
    lines = shown(text, b"/told")
    check(any(line.startswith(b"checking ") for line in lines), lines)
    percent = [float(n) for n in re.findall(rb"replaying \S+ ([\d.]+) %", b" ".join(lines))]
    check(percent and percent == sorted(percent) and all(0 <= n <= 100 for n in percent), percent)
    check(re.fullmatch(rb"reprise: replayed identically: [^\n]*\n", what_remains(text)), text)


@test
def a_console_on_the_same_terminal_is_not_disturbed():
    directory, output, _ = work.hello()
    text = on_terminal("replay", directory)
    rest = what_remains(text)
    check(rest.startswith(output.replace(b"\r", b"")), f"{output}\n{text}")
    check(b"reprise: replayed identically" in rest[len(output.replace(b"\r", b"")):], rest)


@test
def a_dumb_terminal_gets_no_such_line():
    text = on_terminal("replay", work.hello()[0], term="dumb")
    check(b"\033" not in text and b"replaying" not in text, text)


main(work)
