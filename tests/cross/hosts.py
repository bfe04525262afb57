# SPDX-License-Identifier: GPL-2.0-or-later
"""The two kinds of host: this one, and the other, whose programs run under qemu-user.

`make cross` builds the other one's programs, in build/cross.
"""

import os

from tests.lib.checkout import BUILD, TOP, sources
from tests.lib.guest_recording import check_race
from tests.lib.process import one_line, run
from tests.lib.tap import check, skip
from tests.lib.tool import BIN

OTHER = os.path.join(BUILD, "cross", "bin")
BUILT = os.path.join(BUILD, "cross", "built")       # its time: all sources were older
SOURCES = ("base", "hw", "monitor", "protocol", "qemu-patches", "recording", "replay", "tool",
           "meson.build")
HOSTS = {"here": BIN, "there": OTHER}


def need_other():
    if not os.path.exists(BUILT):
        skip("the programs for the other host architecture are not built: run make cross")
    for name in sources():
        if (name.split("/")[0] in SOURCES and
                os.path.getmtime(os.path.join(TOP, name)) > os.path.getmtime(BUILT)):
            skip(f"{name} is newer than the programs for the other host architecture: "
                 "run make cross")


def reprise(where, *args, patience_s=300):
    """(console, what the tool says) of one command, on this or on the other host."""
    done = run(os.path.join(HOSTS[where], "reprise"), *args, timeout=patience_s,
               env=dict(os.environ, REPRISE_QEMU_DIR=HOSTS[where]))
    return done.stdout, done.stderr


def record(where, directory, *args, races=True, **kwargs):
    """The console; the vCPUs have raced."""
    recorded, said = reprise(where, "record", "-o", directory, *args, **kwargs)
    one_line(said)
    if races:
        check_race(directory)
    return recorded


def check_replay(where, directory, recorded, *args, **kwargs):
    replayed, said = reprise(where, "replay", directory, *args, **kwargs)
    check("replayed identically" in one_line(said), said)
    check(replayed == recorded, f"recorded:\n{recorded}\nreplayed {where}:\n{replayed}")
