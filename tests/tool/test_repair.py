# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise repair`: what it says, keeps and refuses.

On recordings of no guest that make-recording writes; test_damage.py replays real ones.
"""

import os
import subprocess

from tests.lib.checksum import change_manifest
from tests.lib.damage import flip
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import recording
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE


def repair(directory, *args, status=0):
    return run(REPRISE, "repair", directory, *args, status=status)


def contents(directory):
    """Of all files, by name."""
    found = {}
    for where, _, names in os.walk(directory):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                found[os.path.relpath(file.name, directory)] = file.read()
    return found


@test
def a_sound_recording_needs_none():
    with recording() as directory:
        before = contents(directory)
        done = repair(directory)
        check(one_line(done.stdout) == f"{directory} needs no repair", done.stdout)
        check(contents(directory) == before, "it was changed")


@test
def a_damaged_log_is_cut_and_the_rest_is_kept():
    with recording() as directory:
        before = contents(directory)
        flip(f"{directory}/vcpu-1.order", 100)
        damaged = contents(directory)
        dry = repair(directory, "--dry-run").stdout
        check(contents(directory) == damaged, "a dry run changed something")
        check("vcpu-1.order: 32 of " in dry and "would replay up to 0:10,1:0;" in dry, dry)

        said = repair(directory).stdout
        check("was repaired and replays up to 0:10,1:0;" in said, said)
        after = contents(directory)
        check(after["vcpu-1.order"] + after["cut-off/vcpu-1.order.from-32"]
              == damaged["vcpu-1.order"], "bytes are lost")
        check(after["cut-off/manifest"] == before["manifest"], "the manifest is lost")
        check("replays up to 0:10,1:0:" in run(REPRISE, "verify", directory).stdout, "verify")

        again = repair(directory).stdout
        check("needs no repair" in again and contents(directory) == after, again)


@test
def two_repairs_keep_both():
    with recording() as directory:
        path = os.path.join(directory, "vcpu-0.data")
        with open(path, "rb") as file:
            whole = file.read()
        for _ in range(2):
            flip(path, 100)
            repair(directory)
            with open(path, "wb") as file:
                file.write(whole)
        check(sorted(os.listdir(f"{directory}/cut-off")) ==
              ["manifest", "manifest.2", "vcpu-0.data.from-32", "vcpu-0.data.from-32.2"],
              os.listdir(f"{directory}/cut-off"))


@test
def an_unfinished_recording_gets_its_cut():
    with recording("--cut") as directory:
        said = repair(directory).stdout
        check("replays up to 0:10000,1:10000" in said, said)
        with open(f"{directory}/manifest") as file:
            text = file.read()
        check("cut=0:10000,1:10000\n" in text and "reason=not finished; repaired\n" in text, text)
        check("needs no repair" in repair(directory).stdout, "again")


@test
def epochs_alone_are_cut_at_the_first_that_is_bad():
    with recording("--epochs") as directory:
        before = contents(directory)
        flip(f"{directory}/epochs", 600)
        damaged = contents(directory)
        said = repair(directory).stdout
        check("epochs: 477 of " in said and "the line has a wrong checksum" in said, said)
        after = contents(directory)
        check(after["epochs"] + after["cut-off/epochs.from-477"] == damaged["epochs"], "lost")
        check(after["manifest"] == before["manifest"], "the recording is no longer complete")
        check("is sound up to its end" in run(REPRISE, "verify", directory).stdout, "verify")
        check("needs no repair" in repair(directory).stdout, "again")


@test
def epochs_without_a_title_are_removed():
    for length in (None, 0):
        with recording("--epochs") as directory:
            flip(f"{directory}/epochs", 3)
            if length is not None:
                os.truncate(f"{directory}/epochs", length)
            damaged = contents(directory)
            repair(directory)
            after = contents(directory)
            check("epochs" not in after and after["cut-off/epochs.from-0"] == damaged["epochs"],
                  sorted(after))
            check("is sound up to its end" in run(REPRISE, "verify", directory).stdout, "verify")


@test
def epochs_behind_the_cut_are_dropped():
    with recording("--epochs") as directory:
        flip(f"{directory}/vcpu-1.order", 200)
        said = repair(directory).stdout
        check("epochs: 477 of " in said and "epoch 3 has vCPU " in said, said)
        check("is sound, not complete, and replays up to " in
              run(REPRISE, "verify", directory).stdout, "verify")
        check("needs no repair" in repair(directory).stdout, "again")


@test
def an_epoch_that_is_not_whole_is_cut():
    with recording("--epochs", "--cut") as directory:
        os.truncate(f"{directory}/epochs", os.path.getsize(f"{directory}/epochs") - 1)
        said = repair(directory).stdout
        check("epochs: 709 of " in said and "the last line is not whole" in said, said)
        check("needs no repair" in repair(directory).stdout, "again")


HOPELESS = {
    "a manifest": (lambda d: flip(f"{d}/manifest", 300), "manifest: wrong checksum"),
    "no manifest": (lambda d: os.unlink(f"{d}/manifest"), "no manifest"),
    "a header": (lambda d: flip(f"{d}/dma.order", 20), "dma.order: byte 0"),
    "no log": (lambda d: os.unlink(f"{d}/vcpu-0.data"), "vcpu-0.data: No such file"),
    "registers": (lambda d: flip(f"{d}/checkpoint-0/cpus", 1), "checkpoint-0/cpus"),
    "memory": (lambda d: flip(f"{d}/checkpoint-0/ram", 99), "checkpoint-0/ram"),
    "no checkpoint": (lambda d: change_manifest(d, "names", ""), "it has none"),
    "another version": (lambda d: change_manifest(d, "log-version", "1"), "log format 1"),
    "epochs elsewhere": (lambda d: (os.symlink("/etc/passwd", f"{d}/epochs")), "epochs"),
    "lies": (lambda d: change_manifest(d, "arcs", "7"), "7"),
}


@test_each(HOPELESS)
def what_cannot_be_repaired_is_left_alone(what):
    spoil, word = HOPELESS[what]
    with recording() as directory:
        spoil(directory)
        before = contents(directory)
        done = repair(directory, status=2)
        check(word in one_line(done.stderr) and done.stdout == "", done.stderr)
        check(contents(directory) == before, "it was changed")


@test
def a_recording_that_is_being_made_is_left_alone():
    with recording("--cut") as directory:
        before = contents(directory)
        with open(f"{directory}/vcpu-0.order", "ab"):
            done = subprocess.run([REPRISE, "repair", directory], stderr=subprocess.PIPE)
        check(done.returncode == 2 and b"is being written" in done.stderr, done.stderr)
        check(contents(directory) == before, "it was changed")


@test
def links_are_not_followed():
    with recording() as directory:
        other = os.path.join(os.path.dirname(directory), "other")
        os.rename(f"{directory}/vcpu-0.order", other)
        os.symlink(other, f"{directory}/vcpu-0.order")
        flip(other, 100)
        size = os.path.getsize(other)
        repair(directory, status=2)
        check(os.path.getsize(other) == size, "another file was cut")
        check(not os.path.exists(f"{directory}/cut-off"), "something was done")


main()
