# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise verify`: what is sound, and where the rest is damaged.

On recordings of no guest that make-recording writes; test_damage.py has real ones.
"""

import os

from tests.lib.checksum import change_manifest, crc32c
from tests.lib.damage import flip
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import FILES, recording
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE


def verify(directory, status=0):
    """Its lines on stdout, and what it says on stderr."""
    done = run(REPRISE, "verify", directory, status=status)
    return done.stdout.splitlines(), done.stderr


@test
def a_sound_recording():
    with recording() as directory:
        lines, said = verify(directory)
    check(lines == [f"{directory} is sound up to its end, 0:10000,1:10001: 2 vCPUs, 4005 events, "
                    "2000 arcs"] and said == "", f"{lines} {said}")


@test
def a_recording_without_an_end_is_sound_as_far_as_it_goes():
    with recording("--cut") as directory:
        lines, _ = verify(directory)
        check("is sound, not complete, and replays up to 0:10000,1:10000" in lines[0], lines)
        # Of one that is not complete, a log may end anywhere.
        path = os.path.join(directory, "vcpu-1.order")
        os.truncate(path, os.path.getsize(path) - 1)
        lines, _ = verify(directory)
    check("is sound, not complete, and replays up to 0:10,1:0:" in lines[0], lines)


@test_each([*FILES, "epochs"])
def any_bit_and_any_end(name):
    """Of each file some bits and some lengths, the first and the last among them."""
    with recording(*(["--epochs"] if name == "epochs" else [])) as directory:
        path = os.path.join(directory, name)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            content = file.read()
        for i in range(40):
            at = i * (size - 1) // 39
            flip(path, at, i % 8)
            lines, said = verify(directory, (1, 2) if name == "manifest" else 1)
            check(any(f"{directory}/{name}" in line for line in lines) or name in said,
                  f"byte {at}: {lines} {said}")
            flip(path, at, i % 8)
        for i in range(10):
            os.truncate(path, i * (size - 1) // 9)
            verify(directory, (1, 2) if name == "manifest" else 1)
            with open(path, "wb") as file:
                file.write(content)
        verify(directory)


def rewrite_epochs(directory, change):
    """With right checksums."""
    with open(f"{directory}/epochs") as file:
        title, *lines = file.read().splitlines()
    texts = (change(line.rsplit(" ", 1)[0]) for line in lines)
    with open(f"{directory}/epochs", "w") as file:
        file.write("".join([title + "\n", *(f"{text} crc32c={crc32c(text.encode()):08x}\n"
                                            for text in texts)]))


EPOCHS = {
    "behind the end": ("point 0:10000,1:10000", "point 0:10000,1:10002",
                       "byte 709: epoch 4 has vCPU 1 at 10002, but the recording ends at 10001"),
    "more of a log": ("logs 312,", "logs 999999,",
                      "byte 709: epoch 4 takes 999999 bytes of vcpu-0.order, which has "),
    "no such log": ("logs 312,4113,0", "logs 312,4113,1",
                    "byte 709: epoch 4 takes 1 bytes of vcpu-0.karma, which has 0"),
    "no such log of DMA": ("32,0,0,0", "32,1,0,0", "byte 17: epoch 1 takes 1 bytes of DMA's data"),
    "another number": ("epoch 2", "epoch 3", "byte 245: the epoch does not follow"),
    "earlier": ("0:5000", "0:2000", "byte 245: the epoch does not follow"),
}


@test_each(EPOCHS)
def epochs_fit_the_recording(what):
    before, after, words = EPOCHS[what]
    with recording("--epochs") as directory:
        rewrite_epochs(directory, lambda text: text)
        verify(directory)
        rewrite_epochs(directory, lambda text: text.replace(before, after))
        lines, _ = verify(directory, 1)
    check(len(lines) == 1 and f"{directory}/epochs: {words}" in lines[0], lines)


@test
def the_last_epoch_may_not_be_whole_where_there_is_no_end():
    for how in ([], ["--cut"]):
        with recording("--epochs", *how) as directory:
            os.truncate(f"{directory}/epochs", os.path.getsize(f"{directory}/epochs") - 1)
            lines, _ = verify(directory, 0 if how else 1)
        words = "is sound, not complete" if how else "epochs: byte 709: it is truncated"
        check(len(lines) == 1 and words in lines[0], lines)


@test
def all_faults_are_listed_with_their_place():
    with recording() as directory:
        flip(f"{directory}/vcpu-0.data", 100, 0)
        flip(f"{directory}/vcpu-1.order", 40, 3)
        flip(f"{directory}/checkpoint-0/devices", 1, 3)
        lines, said = verify(directory, 1)
    check(one_line(said) == f"reprise: {directory} is damaged: 3 faults", said)
    for line, words in zip(lines, ("vcpu-0.data: byte 32: the block has a wrong checksum",
                                   "vcpu-1.order: byte 32: the block header has a wrong checksum",
                                   "checkpoint-0/devices: wrong checksum")):
        check(words in line, f"{words!r} is not in {line!r}")
    check(len(lines) == 3, lines)


DISAGREE = {
    "point": ("0:10000,1:10002", "ends at 10002"),
    "arcs": ("1999", "2000 arcs, its manifest says 1999"),
    "register-digests": ("1,2", "the manifest says 0000000000000001"),
    "ram-size": (str(2 << 20), "not one block of 2097152 bytes"),
    "names": ("", "no checkpoint"),
}


@test_each(DISAGREE)
def logs_and_manifest_must_agree(key):
    value, words = DISAGREE[key]
    with recording() as directory:
        change_manifest(directory, key, value)
        lines, _ = verify(directory, 1)
    check(any(words in line for line in lines), lines)


@test
def what_is_no_recording_is_status_2():
    with recording() as directory:
        change_manifest(directory, "log-version", "99")
        check("log format 99" in one_line(verify(directory, 2)[1]), "another version")
        os.unlink(f"{directory}/manifest")
        check("no manifest" in one_line(verify(directory, 2)[1]), "no manifest")
    check("cannot open" in one_line(verify("/nonexistent", 2)[1]), "no directory")


main()
