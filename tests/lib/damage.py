# SPDX-License-Identifier: GPL-2.0-or-later
"""Damages to recordings: one bit flipped, or one file truncated, anywhere.

Each must be noticed by `reprise verify`, and refused by `reprise replay`; a repair must give
something sound or say why it cannot.  For tests/recording and the soak.
"""

import os
import shutil
import subprocess
from collections import namedtuple

from tests.lib.tool import REPRISE

PATIENCE_S = 120                # for the tool, which needs a second at most
DAMAGED, UNUSABLE = 1, 2        # exit statuses

# bit is None if the file is truncated at the offset.
Damage = namedtuple("Damage", "name offset bit")


class Unnoticed(Exception):
    """What went wrong, with the damage in words."""


def describe(damage):
    if damage.bit is None:
        return f"{damage.name} truncated to {damage.offset} bytes"
    return f"{damage.name}: bit {damage.bit} of byte {damage.offset} flipped"


def files_of(directory):
    return sorted(os.path.relpath(os.path.join(where, name), directory)
                  for where, _, names in os.walk(directory) for name in names)


def random_damage(random, directory):
    """All files alike, however small they are."""
    name = random.choice(files_of(directory))
    size = os.path.getsize(os.path.join(directory, name))
    bit = random.choice((None, random.randrange(8)))
    return Damage(name, random.randrange(size), bit)


def flip(path, at, bit=0):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0] ^ 1 << bit
        file.seek(at)
        file.write(bytes([byte]))


def spoil(directory, damage):
    """Does it; returns a function that undoes it."""
    path = os.path.join(directory, damage.name)
    if damage.bit is not None:
        flip(path, damage.offset, damage.bit)
        return lambda: flip(path, damage.offset, damage.bit)
    with open(path, "rb") as file:
        file.seek(damage.offset)
        lost = file.read()
    os.truncate(path, damage.offset)

    def undo():
        with open(path, "ab") as file:
            file.write(lost)
    return undo


def _run(damage, *args):
    """Status, and what it said.  It may not hang, crash, or say more than an error is."""
    try:
        done = subprocess.run([REPRISE, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                              timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Unnoticed(f"{describe(damage)}: {args[0]} hangs") from None
    if done.returncode not in (0, DAMAGED, UNUSABLE):
        raise Unnoticed(f"{describe(damage)}: {args[0]} ended with {done.returncode}: "
                        f"{done.stderr}")
    if done.returncode and len(done.stderr.splitlines()) != 1:
        raise Unnoticed(f"{describe(damage)}: {args[0]} said not one line: {done.stderr}")
    return done.returncode, done.stdout + done.stderr


def check_noticed(directory, damage):
    """verify says so, and names the file."""
    status, said = _run(damage, "verify", directory)
    if status == 0 or damage.name not in said:
        raise Unnoticed(f"{describe(damage)}: verify: status {status}: {said}")


def check_refused(directory, damage):
    """replay does not start: status 1 would be a divergence."""
    status, said = _run(damage, "replay", directory)
    if status != UNUSABLE:
        raise Unnoticed(f"{describe(damage)}: replay: status {status}: {said}")


def check_repair(directory, damage, copy, replay=False):
    """Of a copy.  Returns whether it could be repaired."""
    shutil.copytree(directory, copy)
    status, said = _run(damage, "repair", copy)
    if status == DAMAGED:
        raise Unnoticed(f"{describe(damage)}: repair: status 1: {said}")
    if status == 0:
        commands = ("verify", "replay") if replay else ("verify",)
        for command in commands:
            status, said = _run(damage, command, copy)
            if status != 0:
                raise Unnoticed(f"{describe(damage)}: {command} after repair: {said}")
    elif not said.startswith("reprise: ") or damage.name not in said:
        raise Unnoticed(f"{describe(damage)}: repair did not say why not: {said}")
    shutil.rmtree(copy)
    return status == 0
