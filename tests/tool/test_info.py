# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise info`, on recordings of no guest that make-recording writes."""

import json
import os
import re
import shutil

from tests.lib.checksum import change_manifest
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import folder_of_recording, recording
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, info

KINDS = ("race", "input", "dma", "check", "checkpoint")


def end_digests(directory):
    """Of registers, as the logs have them."""
    return [digest.rjust(16, "0") for digest in
            re.findall(r" end registers=0x([0-9a-f]+) ", run(REPRISE, "dump", directory).stdout)]


def size(directory):
    return sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(directory) for name in names if name != "manifest")


def table(directory):
    return run(REPRISE, "info", directory).stdout


def at(directory, moment, status=0):
    done = run(REPRISE, "info", "--json", "--at", str(moment), directory, status=status)
    return one_line(done.stderr) if status else json.loads(done.stdout)


@test
def a_moment_is_a_point_of_all_vcpus():
    with recording() as directory:
        start = {"moment": 0, "point": "0:0,1:0", "dma": 0}
        check(at(directory, 0) == start, at(directory, 0))
        last = int(re.search(r"its last at (\d+)$", at(directory, 1 << 63, 2)).group(1))
        end = at(directory, last)
        check(end["point"] == "0:10000,1:10001" and end["dma"] == last - 20001, end)
        for moment in range(0, last, last // 50):
            said = at(directory, moment)
            positions = [int(part.split(":")[1]) for part in said["point"].split(",")]
            check(sum(positions) + said["dma"] == moment, said)
            check(said == at(directory, moment), "another order")
        check("not '-1'" in at(directory, "-1", 2), "-1")


@test
def json_says_everything():
    with recording() as directory:
        said = info(directory)
        stored = size(directory)
        digests = end_digests(directory)
        with open(os.path.join(directory, "checkpoint-0/sums")) as file:
            sums = file.read()
    expected = {
        "directory": directory, "complete": True, "replayable": True, "vcpus": 2,
        "end_reason": 'a "test" \\ ended', "end_point": "0:10000,1:10001", "seconds": 1.25,
        "instructions": [9000, 9001], "arcs": 2000, "logged_to": "0:10000,1:10001",
        "log_events": 4005, "checkpoints": ["checkpoint-0"], "arch": "aarch64",
        "machine": "virt-10.0", "machine_options": "gic-version=2", "cpu": "cortex-a72,pmu=off",
        "ram_bytes": 1 << 20, "console": "pl011", "console_address": 0x9000000,
        "start": "power-on", "start_time": 1763170000,
    }
    for key, value in expected.items():
        check(said[key] == value, f"{key} is {said[key]!r}, not {value!r}")
    digest = said["end_digest"]
    check(len(digest["ram"]) == 32, digest)
    path = said["critical_path"]
    check(10001 <= path["longest"] < path["steps"] and path["steps"] > 20001, path)
    race = said["log_bytes"]["race"]["raw"] * 1000 / 18001
    check(abs(said["race_bytes_per_1000_instructions"] - race) < 0.001, said)
    check(digest["registers"] == digests, f"{digest}, not {digests}")

    sizes = said["log_bytes"]
    check(set(sizes) == {*KINDS, "total"}, sizes)
    for which in ("raw", "stored"):
        check(sizes["total"][which] == sum(sizes[kind][which] for kind in KINDS), sizes)
    check(all(sizes[kind]["raw"] > 0 for kind in KINDS), sizes)
    check(sizes["total"]["stored"] == stored, f"{sizes}, but {stored} bytes of files")
    check(sizes["checkpoint"]["raw"] == (1 << 20) + len("registersdevices") + len(sums), sizes)


@test
def a_table_for_people():
    with recording() as directory:
        text = run(REPRISE, "info", directory).stdout
        digests = end_digests(directory)
    for word in ("virt-10.0", "2 x cortex-a72", "1.0 MiB", "yes", "0:10000,1:10001", "9001",
                 "per 1000 instructions", "vCPUs at once", *digests, *KINDS):
        check(word in text, f"{word!r} is not in:\n{text}")


@test
def each_order_has_its_figures():
    with folder_of_recording() as top:
        directory = f"{top}/new"
        run(REPRISE, "convert", f"{top}/recording", directory, "--order", "fdr,karma:100,rerun:0")
        run(REPRISE, "convert", directory, f"{top}/karma", "--order", "karma:100")
        former, said, text = info(f"{top}/recording"), info(directory), table(directory)
        rerun = json.loads(run(REPRISE, "info", "--json", "--order", "rerun", directory).stdout)
        karma = info(f"{top}/karma")
        check("not recorded with the order rerun: it has karma" in
              one_line(run(REPRISE, "info", "--order", "rerun", f"{top}/karma", status=2).stderr),
              "another order")
    check(former["order"] == "fdr" and list(former["orders"]) == ["fdr"], former)
    check(said["order"] == "fdr,karma:100,rerun:0", said["order"])
    check(list(said["orders"]) == ["fdr", "karma", "rerun"], said["orders"])
    # The first is followed, unless the user wants another.
    for key in ("race_bytes_per_1000_instructions", "critical_path"):
        check(said[key] == former[key] == said["orders"]["fdr"][key], said)
        check(rerun[key] == said["orders"]["rerun"][key] != former[key], rerun)
    figures = said["orders"]["karma"]
    check(figures["max_steps"] == 100 and figures["longest_steps"] == 100, figures)
    check(0 < figures["median_steps"] <= 100 and figures["episodes"] >= 200, figures)
    check(karma["arcs"] == figures["edges"] > 100, figures)
    # Waits for whole episodes make chains longer.
    longest = [said["orders"][name]["critical_path"]["longest"] for name in said["orders"]]
    check(longest[0] <= longest[1] <= 20002 and longest[0] <= longest[2], longest)
    sizes = said["log_bytes"]
    check(set(sizes) == {*KINDS, "karma", "rerun", "total"}, sizes)
    for name in ("karma", "rerun"):
        bytes_per_1000 = sizes[name]["raw"] * 1000 / 18001
        check(abs(said["orders"][name]["race_bytes_per_1000_instructions"] -
                  bytes_per_1000) < 0.001, said)
    for words in ("order          fdr,karma:100,rerun:0\n", "instructions by rerun\n",
                  f"edges          {figures['edges']} by karma\n", "steps by rerun: "):
        check(words in text, text)


@test
def epochs_are_counted():
    with recording() as directory:
        check(info(directory)["epochs"] is None and "epochs" not in table(directory), "none")
    with recording("--epochs") as directory:
        said, text = info(directory)["epochs"], table(directory)
        check(said == {"number": 4, "median_ms": 100.5}, said)
        check("\nepochs         4, median 100.5 ms\n" in text, text)
        os.truncate(f"{directory}/epochs", 300)
        said, text = info(directory)["epochs"], table(directory)
        check(said == {"number": 1, "median_ms": None}, said)
        check("\nepochs         1\n" in text, text)


@test
def a_recording_without_an_end():
    with recording("--cut") as directory:
        said = info(directory)
        text = run(REPRISE, "info", directory).stdout
    check(said["complete"] is False, said)
    for key in ("end_point", "end_digest", "seconds", "instructions", "arcs"):
        check(said[key] is None, said)
    check(said["logged_to"] == "0:10000,1:10000" and said["cut"] is None, said)
    check("logged to" in text, text)


@test
def a_repaired_recording_has_a_cut():
    with recording("--cut") as directory:
        run(REPRISE, "repair", directory)
        said = info(directory)
        text = run(REPRISE, "info", directory).stdout
    check(said["cut"] == "0:10000,1:10000" and not said["complete"], said)
    check(said["critical_path"] == {"steps": 20001, "longest": 10000}, said)
    check("\ncut            0:10000,1:10000\n" in text, text)


@test
def a_log_that_was_cut_off_makes_it_incomplete():
    with recording() as directory:
        path = os.path.join(directory, "vcpu-1.order")
        os.truncate(path, os.path.getsize(path) - 1)
        said = info(directory)
    check(said["complete"] is False, said)


@test
def another_patch_level_is_shown_and_not_replayable():
    with recording() as directory:
        change_manifest(directory, "patch-level", "0123")
        said = info(directory)
        text = run(REPRISE, "info", directory).stdout
    check(said["replayable"] is False and said["patch_level"] == "0123", said)
    check("QEMU patches 0123" in text, text)


def spoil_manifest(directory):
    with open(os.path.join(directory, "manifest"), "w") as manifest:
        manifest.write("nonsense")


def spoil_log(directory):
    with open(os.path.join(directory, "vcpu-0.order"), "r+b") as log:
        log.write(b"nonsense")


def spoil_epochs(directory):
    with open(os.path.join(directory, "epochs"), "w") as epochs:
        epochs.write("nonsense\n")


BROKEN = {
    "no manifest": (lambda d: os.unlink(f"{d}/manifest"), "no manifest"),
    "foreign manifest": (spoil_manifest, "not the manifest"),
    "no log": (lambda d: os.unlink(f"{d}/vcpu-0.order"), "vcpu-0.order"),
    "foreign log": (spoil_log, "vcpu-0.order"),
    "foreign epochs": (spoil_epochs, "epochs: byte 0"),
    "no checkpoint": (lambda d: shutil.rmtree(f"{d}/checkpoint-0"), "checkpoint-0"),
    "no RAM": (lambda d: os.unlink(f"{d}/checkpoint-0/ram"), "checkpoint-0/ram"),
    "no directory": (shutil.rmtree, "recording"),
}


@test_each(BROKEN)
def broken_recordings_are_one_line_and_status_2(how):
    spoil, word = BROKEN[how]
    with recording() as directory:
        spoil(directory)
        done = run(REPRISE, "info", "--json", directory, status=2)
        os.makedirs(directory, exist_ok=True)
    check(done.stdout == "", done.stdout)
    check(word in one_line(done.stderr), done.stderr)


main()
