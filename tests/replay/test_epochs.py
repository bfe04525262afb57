# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings with epochs: replays are compared at each, also while the recording is being made."""

import os
import re
import shutil
import subprocess
import time

from tests.lib.checksum import crc32c
from tests.lib.guest_recording import GuestWorkspace, end, kill_recorder
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, info, need

work = GuestWorkspace()
ARCHES = ["aarch64", "x86_64"]
BUSY = "forkstorm -t 2 -n 15 && pipes -t 2 -n 60 && racey -t 4 -n 20000"
LONG = "while :; do forkstorm -t 2 -n 3; done"
PATIENCE_S = 120


def record_busy(arch):
    need(arch)
    directory = work.place(f"busy-{arch}")
    output, _ = work.record(directory, "--epochs=50", "--order", "fdr,karma,rerun",
                            "--checkpoint-interval", "0.7", "--arch", arch, "--smp", "4",
                            "--run", BUSY)
    return directory, output


busy = {arch: work.shared(lambda arch=arch: record_busy(arch)) for arch in ARCHES}


def lines(directory):
    """The epochs in the file, without its title."""
    with open(os.path.join(directory, "epochs"), encoding="ascii") as file:
        return file.read().splitlines()[1:]


def compared(said):
    found = re.search(r"; (\d+) epochs compared", said)
    check(found, said)
    return int(found.group(1))


@test_each(["aarch64"], long=["x86_64"])
def a_converted_recording_keeps_its_epochs(arch):
    """A replay by other orders stands still at each, so no edge of theirs leads over it."""
    directory, output = busy[arch]()
    new = work.place(f"converted-{arch}")
    run(REPRISE, "convert", directory, new, "--order", "karma,rerun,fdr")
    for order in ("karma", "rerun", "fdr"):
        seen, said = work.replay(new, "--order", order)
        check("replayed identically" in said and compared(said) == len(lines(directory)), said)
        check(seen == output, f"{order}: another console")


@test_each(["aarch64"], long=["x86_64"])
def all_epochs_are_compared(arch):
    """In each order, by wake-ups and by positions, and one vCPU at a time."""
    directory, output = busy[arch]()
    n = len(lines(directory))
    check(n > 10, f"only {n} epochs")
    for more in ((), ("--order", "karma"), ("--order", "karma", "--positions"),
                 ("--order", "rerun"), ("--threads", "single"), ("--chaos", "5")):
        seen, said = work.replay(directory, *more)
        check("replayed identically" in said and compared(said) == n, f"{more}: {said}")
        check(seen == output, f"{more}: another console")


@test_each(ARCHES)
def a_replay_from_a_checkpoint_compares_those_behind_it(arch):
    directory, output = busy[arch]()
    last = len(info(directory)["checkpoints"]) - 1
    check(last > 1, "only one checkpoint")
    for number in (1, last):
        seen, said = work.replay(directory, "--from", str(number))
        check("replayed identically" in said and output.endswith(seen), said)
        n = re.search(r"; (\d+) epochs compared", said)
        check(number == last or 0 < int(n.group(1)) < len(lines(directory)), said)


@test_each(["aarch64"], long=["x86_64"])
def a_replay_that_ends_early_compares_those_before_it(arch):
    directory, _ = busy[arch]()
    half = sum(int(place.split(":")[1]) for place in
               lines(directory)[len(lines(directory)) // 2].split()[5].split(","))
    _, said = work.replay(directory, "--until", str(half))
    check("replayed up to moment" in said and 0 < compared(said) < len(lines(directory)), said)


@test_each(ARCHES)
def a_wrong_byte_is_found_in_its_epoch(arch):
    """Wherever it is, and in no epoch before."""
    directory, _ = busy[arch]()
    n = len(lines(directory))
    for number, offset in ((1, 0), (n // 2, 300 << 20), (n, (512 << 20) - 1)):
        env = {**os.environ, "REPRISE_EPOCH_FAULT": f"{number}:{offset}"}
        _, said = work.replay(directory, status=1, env=env)
        check(f"replay diverged: in epoch {number} (from " in said and
              "expected RAM digest" in said, said)


def changed(directory, change):
    """A copy of a recording whose file of epochs is changed."""
    copy = shutil.copytree(directory, work.place("changed"), symlinks=True)
    path = os.path.join(copy, "epochs")
    with open(path, encoding="ascii") as file:
        text = file.read()
    os.unlink(path)
    with open(path, "w", encoding="ascii") as file:
        file.write(change(text))
    return copy


@test
def epochs_that_are_damaged_are_refused_where_they_are():
    directory, _ = busy["x86_64"]()
    for change, wrong in ((lambda text: text.replace("epoch 3 us 1", "epoch 3 us 2"), "checksum"),
                          (lambda text: "x" + text, "no list of epochs")):
        copy = changed(directory, change)
        said = one_line(run(REPRISE, "replay", copy, status=2).stderr)
        check(wrong in said, said)
        shutil.rmtree(copy)


def with_word(text, number, index, word):
    """The text, with another word in the line of an epoch, and the right checksum."""
    all_lines = text.splitlines()
    words = all_lines[number].split()[:-1]
    words[index] = word
    line = " ".join(words)
    all_lines[number] = f"{line} crc32c={crc32c(line.encode()):08x}"
    return "".join(f"{line}\n" for line in all_lines)


@test
def epochs_that_no_replay_could_end_are_refused():
    directory, _ = busy["x86_64"]()
    n = len(lines(directory))
    # One vCPU is already where all come to in the next epoch, in which they race.
    points = [line.split()[5].split(",") for line in lines(directory)]
    places = [[int(place.split(":")[1]) for place in point] for point in points]
    early = max(range(n - 1), key=lambda i: min(
        place[1] - place[0] for place in zip(places[i], places[i + 1])))
    point = [points[early][0], points[early + 1][1], *points[early][2:]]
    for number, index, word, wrong in ((n, 7, "1000000000", f"epoch {n} has 1000000000"),
                                       (early + 1, 5, ",".join(point), "does not come first")):
        copy = changed(directory, lambda text: with_word(text, number, index, word))
        replayed, verified = run(REPRISE, "replay", copy, status=2), run(REPRISE, "verify", copy,
                                                                         status=1)
        for said in (one_line(replayed.stderr), verified.stdout):
            check(f"{copy}/epochs: " in said and wrong in said, said)
        shutil.rmtree(copy)


@test
def a_converted_recording_is_complete_so_it_is_not_followed():
    directory, _ = busy["x86_64"]()
    new = work.place("followed-converted")
    run(REPRISE, "convert", directory, new, "--order", "karma,fdr")
    said = one_line(run(REPRISE, "replay", "--follow", new, status=2).stderr)
    check("was converted" in said, said)


@test
def a_line_that_is_not_whole_is_ignored():
    directory, _ = busy["x86_64"]()
    copy = changed(directory, lambda text: text[:-20])
    _, said = work.replay(copy)
    check("replayed identically" in said and compared(said) == len(lines(directory)) - 1, said)


# --- while the recording is being made ------------------------------------------------------

def start_following(directory, *more):
    return subprocess.Popen([REPRISE, "replay", "--follow", directory, *more],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def followed(follower, status=0):
    """What it showed, and what it said, once it has ended."""
    seen, said = follower.communicate(timeout=PATIENCE_S)
    said = one_line(said.decode())
    check(follower.returncode == status, said)
    return seen, said


@test_each(["1 aarch64", "2 x86_64"], long=["1 x86_64"])
def a_recording_is_followed_to_its_end(what):
    """By one that was there first, and by one that comes later."""
    smp, arch = what.split()
    directory = work.place(f"followed-{smp}-{arch}")
    first = start_following(directory)
    recorder = work.start("record", "-o", directory, "--epochs=100", "--arch", arch, "--smp", smp,
                          "--checkpoint-interval", "1", "--run", BUSY)
    while not os.path.exists(f"{directory}/manifest") or len(info(directory)["checkpoints"]) < 2:
        check(recorder.poll() is None, "it has ended before its second checkpoint")
        time.sleep(0.1)
    later = start_following(directory, "--from", "1")
    said = end(recorder)
    check("guest-shutdown" in said, said)
    output = work.console.read()
    for follower in (first, later):
        seen, said = followed(follower)
        check("replayed identically" in said, said)
        check(compared(said) > 3 and output.endswith(seen), said)


@test
def a_follower_stays_close_and_tells_of_it():
    need("x86_64")
    directory, path = work.place("close"), work.path("follower")
    recorder = work.start("record", "-o", directory, "--epochs=100", "--arch", "x86_64", "--run",
                          LONG)
    follower = start_following(directory, "--qmp", path)
    qmp = Qmp(path, follower)
    seen = [qmp.event("RECORDER_FOLLOWED") for _ in range(30)]
    numbers = [event["number"] for event in seen]
    check(numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers)
    check(qmp("query-recorder")["return"]["epochs"] >= len(numbers), "query-recorder")
    check(all(event["lag"] > 0 for event in seen), seen)
    # The user pauses it, and it catches up.
    qmp("stop")
    time.sleep(0.5)
    qmp("cont")
    check(qmp.event("RECORDER_FOLLOWED")["number"] == numbers[-1] + 1, "after a pause")
    kill_recorder(recorder)
    qmp.close()
    _, said = followed(follower)
    check("the recorder has died" in said, said)
    check(compared(said) == len(lines(directory)), f"{said} {len(lines(directory))}")


@test
def a_follower_tells_at_once_if_it_differs():
    need("x86_64")
    directory = work.place("differs")
    recorder = work.start("record", "-o", directory, "--epochs=100", "--arch", "x86_64", "--smp",
                          "2", "--run", LONG)
    os.environ["REPRISE_EPOCH_FAULT"] = "15:123456"
    follower = start_following(directory)
    del os.environ["REPRISE_EPOCH_FAULT"]
    _, said = followed(follower, 1)
    check(recorder.poll() is None, "the recorder has ended")
    check("replay diverged: in epoch 15 (" in said, said)
    kill_recorder(recorder)


@test
def a_paused_guest_is_followed_up_to_where_it_is():
    need("x86_64")
    directory, path, mine = work.place("paused"), work.path("recorder"), work.path("follower")
    recorder = work.start("record", "-o", directory, "--epochs=200", "--arch", "x86_64", "--smp",
                          "2", "--qmp", path, "--run", LONG)
    follower = start_following(directory, "--qmp", mine)
    theirs, qmp = Qmp(path, recorder), Qmp(mine, follower)
    qmp.event("RECORDER_FOLLOWED")
    theirs("stop")
    places = [vcpu["position"] for vcpu in theirs("query-recorder")["return"]["vcpus"]]
    deadline = time.monotonic() + PATIENCE_S
    while places != [vcpu["position"] for vcpu in qmp("query-recorder")["return"]["vcpus"]]:
        check(time.monotonic() < deadline, "it is not there")
        time.sleep(0.05)
    n = len(lines(directory))
    time.sleep(0.7)
    check(len(lines(directory)) == n, "there are epochs in which nothing happens")
    kill_recorder(recorder)
    followed(follower)


def ask(directory, *more):
    """The moment, and all registers; not how many moments there are."""
    said = run(REPRISE, "debug", directory, *more, "--ask", "when", "--ask", "info registers -a",
               status=0).stdout
    return re.sub(r" of \d+ to \d+,", "", said)


@test_each(["x86_64"], long=["aarch64"])
def the_past_of_a_guest_that_runs_is_debugged(arch):
    """It is what the finished recording has there, and each view sees more."""
    need(arch)
    directory, path = work.place(f"growing-{arch}"), work.path("growing")
    recorder = work.start("record", "-o", directory, "--epochs=100", "--arch", arch, "--smp", "2",
                          "--checkpoint-interval", "1", "--qmp", path, "--run", LONG)
    qmp = Qmp(path, recorder)
    qmp.event("RECORDER_EPOCH")
    seen = []
    for _ in range(2):
        qmp.event("RECORDER_CHECKPOINT")
        qmp.event("RECORDER_EPOCH")
        seen.append(ask(directory, "--growing", "--at", "end"))
    start = ask(directory, "--growing")
    middle = str(int(re.search(r"moment (\d+)", seen[0]).group(1)) // 3 * 2)
    between = ask(directory, "--growing", "--at", middle)
    check(recorder.poll() is None, "the recorder has ended")
    kill_recorder(recorder)
    qmp.close()
    moments = [re.search(r"moment (\d+)", said).group(1) for said in seen]
    check(int(moments[0]) < int(moments[1]), moments)
    for moment, said in zip([*moments, middle], [*seen, between]):
        check(ask(directory, "--at", moment) == said, f"moment {moment}: another state")
    check(ask(directory) == start, "another start")
    views = [name for name in os.listdir(os.path.dirname(directory)) if ".view-" in name]
    check(not views, f"left behind: {views}")


@test
def what_cannot_be_followed_is_refused():
    directory, _ = busy["x86_64"]()
    plain = work.hello()[0]
    for args, wrong in (([plain, "--follow"], "has no epochs to follow"),
                        ([directory, "--follow", "--order", "karma"], "the order of FDR"),
                        ([directory, "--follow", "--until", "5"], "--follow ends when")):
        said = run(REPRISE, "replay", *args, status=2).stderr
        check(wrong in said and len(said.splitlines()) == 1, said)
    path = work.path("recorder")
    recorder = work.start("record", "-o", work.place("without"), "--qmp", path,
                          "--checkpoint-interval", "0.5", "--run", LONG)
    qmp = Qmp(path, recorder)
    qmp.event("RECORDER_CHECKPOINT")
    qmp.close()
    said = one_line(run(REPRISE, "debug", work.path("without"), "--growing", status=2).stderr)
    check("has no epochs, up to which it could be seen" in said, said)
    kill_recorder(recorder)
    for args, wrong in ((["--epochs=0"], "milliseconds"), (["--epochs=x"], "milliseconds"),
                        (["--epochs=5"], "epochs of 5 ms: give 10 to 60000"),
                        (["--epochs", "--keep-seconds", "3"], "not both")):
        new = work.place("refused")
        said = run(REPRISE, "record", "-o", new, *args, status=2).stderr
        check(wrong in said, said)
        check(not os.path.exists(os.path.join(new, "manifest")), f"{args}: it was recorded")


main(work)
