# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise convert`: recordings of no guest, and of a real one with checkpoints."""

import filecmp
import os
import re
import signal
import subprocess
import time

from tests.lib.damage import flip
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import folder_of_recording
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE, info

work = GuestWorkspace()
LISTS = ["fdr", "karma:1024", "karma:0", "rerun:256", "rerun", "fdr,karma,rerun"]


def convert(top, directory, to, *args, status=0):
    done = run(REPRISE, "convert", directory, to, *args, status=status, cwd=top)
    return done.stdout if status == 0 else one_line(done.stderr)


def verify(directory):
    return run(REPRISE, "verify", directory).stdout


def arcs(directory):
    return int(re.search(r"(\d+) arcs", verify(directory)).group(1))


def kinds(directory):
    """How many events of each kind there are."""
    count = {}
    for kind in re.findall(r"  @\d+  (\S+)", run(REPRISE, "dump", directory).stdout):
        count[kind] = count.get(kind, 0) + 1
    return count


@test_each(LISTS)
def a_recording_gets_other_orders(orders):
    with folder_of_recording() as top:
        check("was converted: new" in convert(top, "recording", "new", "--order", orders), orders)
        check("is sound up to its end" in verify(f"{top}/new"), orders)
        check(sorted(os.listdir(top)) == ["new", "recording"], os.listdir(top))
        had, has = kinds(f"{top}/recording"), kinds(f"{top}/new")
        check(has.get("wait", 0) == (had["wait"] if "fdr" in orders else 0), has)
        check(("episode" in has) == ("karma" in orders), has)
        check(("stamped" in has) == ("rerun" in orders), has)
        for kind in ("wait", "episode", "stamped"):
            had.pop(kind, None)
            has.pop(kind, None)
        check(had == has, f"{had}, {has}")
        ram = "checkpoint-0/ram"
        check(os.path.samefile(f"{top}/recording/{ram}", f"{top}/new/{ram}"), "it is not linked")


@test
def epochs_stay_without_sizes_of_logs():
    with folder_of_recording("--epochs") as top:
        convert(top, "recording", "new", "--order", "karma:100")
        check("is sound up to its end" in verify(f"{top}/new"), "verify")
        with open(f"{top}/recording/epochs") as old, open(f"{top}/new/epochs") as new:
            lines = zip(old.read().splitlines(), new.read().splitlines(), strict=True)
        for number, (before, after) in enumerate(lines):
            if number == 0:
                check(before == after, after)
            else:
                check(before.split(" logs ")[0] == after.split(" logs ")[0], after)
                check(f" logs {','.join('0' * 12)} crc32c=" in after, after)
        flip(f"{top}/recording/epochs", 600)
        said = convert(top, "recording", "other", "--order", "karma", status=2)
        check("recording/epochs: byte 477: the line has a wrong checksum" in said, said)
        check(sorted(os.listdir(top)) == ["new", "recording"], os.listdir(top))


@test
def epochs_behind_the_cut_are_left_out():
    with folder_of_recording("--epochs", "--cut") as top:
        path = f"{top}/recording/vcpu-1.order"
        os.truncate(path, 200)
        os.unlink(f"{top}/recording/epochs")
        run(REPRISE, "repair", f"{top}/recording")
        with folder_of_recording("--epochs") as other:
            os.rename(f"{other}/recording/epochs", f"{top}/recording/epochs")
        convert(top, "recording", "new", "--order", "karma:100")
        with open(f"{top}/new/epochs") as file:
            check(len(file.read().splitlines()) == 3, "epochs")
        check("is sound, not complete" in verify(f"{top}/new"), "verify")


@test
def fdr_alone_is_what_it_was():
    with folder_of_recording() as top:
        convert(top, "recording", "new", "--order", "fdr")
        names = ["manifest", *(name for name in os.listdir(f"{top}/new") if "." in name)]
        check(len(names) == 6, names)
        _, differ, missing = filecmp.cmpfiles(f"{top}/recording", f"{top}/new", names, False)
        check(not differ and not missing, (differ, missing))


@test
def the_order_to_follow_can_be_chosen():
    with folder_of_recording() as top:
        convert(top, "recording", "all", "--order", "fdr,karma:100,rerun:100")
        for name in ("fdr", "karma", "rerun"):
            convert(top, "all", name, "--from", name, "--order", "karma")
        # Karma's waits are for whole episodes.
        check(arcs(f"{top}/fdr") != arcs(f"{top}/karma"), "the same was followed")
        convert(top, "karma", "back", "--order", "fdr")
        said = convert(top, "karma", "new", "--from", "fdr", "--order", "rerun", status=2)
        check("karma was not recorded with the order fdr: it has karma" in said, said)
        said = convert(top, "karma", "new", "--from", "foo", "--order", "rerun", status=2)
        check("unknown order 'foo': give fdr, karma or rerun" in said, said)


@test
def a_recording_that_is_cut_off_stays_so():
    with folder_of_recording("--cut") as top:
        convert(top, "recording", "new", "--order", "fdr,karma:64,rerun")
        check(verify(f"{top}/new").replace("new", "recording").split(":")[1:3] ==
              verify(f"{top}/recording").split(":")[1:3], verify(f"{top}/new"))
        check("not complete" in verify(f"{top}/new"), "it is complete")
        check(info(f"{top}/new")["cut"] == "0:10000,1:10000", info(f"{top}/new")["cut"])
        convert(top, "new", "newer", "--order", "rerun")
        check(info(f"{top}/newer")["cut"] == "0:10000,1:10000", info(f"{top}/newer")["cut"])


REFUSED = {
    "no list": (["recording", "new"], "which orders? Give --order LIST"),
    "an empty list": (["recording", "new", "--order", ""], "no order: give fdr"),
    "a list that is none": (["recording", "new", "--order", "fdr:3"], "fdr has no episodes"),
    "one directory": (["recording", "--order", "fdr"], "a recording and a new one"),
    "three directories": (["recording", "new", "x", "--order", "fdr"], "got 'x' too"),
    "no recording": (["nothing", "new", "--order", "fdr"], "nothing"),
    "itself": (["recording", "recording", "--order", "fdr"], "exists already"),
    "a file": (["recording", "file", "--order", "fdr"], "exists already"),
    "nowhere": (["recording", "no/new", "--order", "fdr"], "cannot make no/new"),
}


@test_each(REFUSED)
def what_is_refused_leaves_nothing(how):
    args, why = REFUSED[how]
    with folder_of_recording() as top:
        with open(f"{top}/file", "w"):
            pass
        done = run(REPRISE, "convert", *args, status=2, cwd=top)
        check(why in one_line(done.stderr) and done.stdout == "", done.stderr)
        check(sorted(os.listdir(top)) == ["file", "recording"], os.listdir(top))


@test
def damage_is_refused():
    with folder_of_recording() as top:
        log = f"{top}/recording/vcpu-1.order"
        os.truncate(log, os.path.getsize(log) - 1)
        said = convert(top, "recording", "new", "--order", "karma", status=2)
        check("vcpu-1.order" in said and "truncated" in said, said)
        check(os.listdir(top) == ["recording"], os.listdir(top))


# --- a real guest -------------------------------------------------------------------------

@work.shared
def raced():
    """Two vCPUs that race, with checkpoints on the way: directory, and what the guest showed."""
    directory = work.place("raced")
    shown, _ = work.record(directory, "--smp", "2", "--checkpoint-interval", "0.3",
                           "--run", "racey -n 2000")
    return directory, shown


def converted(orders, directory=None):
    to = work.place(f"to-{orders}-{time.monotonic_ns()}")
    run(REPRISE, "convert", directory or raced()[0], to, "--order", orders)
    check("is sound up to its end" in verify(to), orders)
    return to


@test_each(LISTS)
def a_real_recording_is_sound_in_other_orders(orders):
    directory = converted(orders)
    points = info(directory)["checkpoint_points"]
    check(points == info(raced()[0])["checkpoint_points"] and len(points) > 2, points)


@test_each(["karma:0", "rerun:0"])
def what_became_of_waits_orders_the_same_run(orders):
    """Waits that are made of episodes are all that the replay has.

    Episodes without a limit end where a vCPU was between two steps, so that it can wait there.
    """
    directory = converted("fdr", converted(orders))
    shown, said = work.replay(directory)
    check(shown == raced()[1] and "replayed identically" in said, said)
    last = len(info(directory)["checkpoints"]) - 1
    check("replayed identically" in work.replay(directory, "--from", str(last))[1], "from the last")


@test_each(["karma", "rerun"])
def smaller_episodes_are_more(order):
    counts = [kinds(converted(f"{order}:{most}"))["episode" if order == "karma" else "stamped"]
              for most in (0, 1 << 20, 1 << 16, 1 << 12)]
    check(counts == sorted(counts) and counts[0] < counts[-1], counts)


@test
def a_signal_leaves_nothing():
    to = work.place("stopped")
    tool = subprocess.Popen([REPRISE, "convert", raced()[0], to, "--order", "karma:1"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    beside = f"{to}.converting-{tool.pid}"
    while not os.path.exists(beside) and tool.poll() is None:
        time.sleep(0.001)
    tool.send_signal(signal.SIGTERM)
    said = tool.communicate(timeout=60)[1]
    check(tool.returncode == 2 and one_line(said) == "reprise: stopped", said)
    check(not os.path.exists(to) and not os.path.exists(beside), "something is left")


main(work)
