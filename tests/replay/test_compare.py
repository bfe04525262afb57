# SPDX-License-Identifier: GPL-2.0-or-later
"""Finding where a replay goes astray: digests every N steps, traces, `reprise compare`.

The fault is an input that was changed in the log: a read of the guest's counter.
"""

import os
import re
import shutil
import time

from tests.lib.checkout import BUILD
from tests.lib.guest_recording import GuestWorkspace, end
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import REPRISE

work = GuestWorkspace()
ENOUGH = 300000                         # steps
CHANGE_INPUT = os.path.join(BUILD, "core/tests/tools/change-input")


def position(qmp):
    return int(qmp("query-recorder")["return"]["point"].split(":")[1])


@work.shared
def fine():
    """A piece of a running guest with a digest at each step."""
    socket, directory = work.path("qmp"), work.place("fine")
    process = work.start("record", "-o", work.place("before"), "--qmp", socket,
                         "--run", "while :; do date; done")
    qmp = Qmp(socket, process)
    work.console.wait_for(b"reprise: begin", process)
    qmp("recorder-stop")
    answer = qmp("recorder-start", directory=directory, **{"digest-interval": 1})
    check(answer == {"return": {}}, answer)
    while position(qmp) < ENOUGH:
        time.sleep(0.02)
    check(qmp("recorder-stop", pause=True) == {"return": {}}, "recorder-stop")
    qmp("quit")
    end(process)
    qmp.close()
    return directory


def dump(directory):
    """[(position, kind)] of vCPU 0."""
    lines = run(REPRISE, "dump", "--vcpu", "0", directory).stdout.splitlines()
    return [(int(at), kind) for at, kind in
            (re.match(r"vcpu 0 \w+ +@(\d+) +([\w-]+)", line).groups() for line in lines)]


@work.shared
def spoiled():
    """A copy with one input changed, and the position of that."""
    directory = shutil.copytree(fine(), work.place("spoiled"),
                                ignore=shutil.ignore_patterns("*.order", "*.data"))
    reads = [at for at, kind in dump(fine()) if kind == "sysreg"]
    middle = reads[len(reads) // 2]
    at = run(CHANGE_INPUT, fine(), directory, "sysreg", str(middle)).stdout
    return directory, int(at)


def trace(name, directory, *options, status=0):
    target = work.place(name)
    work.replay(directory, "--trace", target, *options, status=status)
    return target


def differences(text):
    """{register: (a, b)}"""
    rows = re.findall(r"^  (\S+) +([0-9a-f]{16})  ([0-9a-f]{16})$", text, re.M)
    return {name: (int(a, 16), int(b, 16)) for name, a, b in rows}


@test
def digests_come_at_multiples_of_the_interval():
    directory = work.place("interval")
    work.record(directory, "--digest-interval", "1000", "--run", "echo hello")
    at = [p for p, kind in dump(directory) if kind == "digest"]
    check(len(at) > 10000, f"{len(at)} digests")
    # A fault and its delivery are two steps between which nobody looks.
    off = [p for p in at if p % 1000 > 2]
    check(not off, f"{off[:10]}")
    target = trace("same", directory, "--trace-interval", "10000")
    said = run(REPRISE, "compare", directory, target).stdout
    check(re.match(r"vCPU 0 is the same at \d{4,} positions, the last \d+\n$", said), said)


@test
def every_step_is_recorded_and_replays():
    at = [p for p, kind in dump(fine()) if kind == "digest"]
    check(len(at) > 0.9 * at[-1], f"{len(at)} digests up to {at[-1:]}")
    _, line = work.replay(fine())
    check("replayed identically" in line, line)


@test
def a_changed_input_is_found_to_the_step_by_the_replay():
    directory, at = spoiled()
    _, line = work.replay(directory, status=1)
    check(re.search(rf"vCPU 0 at position {at + 1}: expected register digest \w+, seen \w+, "
                    rf"the same at position {at}: x\d+ expected 0x\w+, seen 0x\w+$", line), line)


@test
def a_changed_input_is_found_to_the_step_by_two_traces():
    directory, position = spoiled()
    window = ["--trace-interval", "1", "--trace-from", f"0:{position - 40}",
              "--trace-to", f"0:{position + 40}"]
    good = trace("good", fine(), *window)
    bad = trace("bad", directory, *window, status=1)
    said = run(REPRISE, "compare", good, bad, status=1).stdout
    check(f"vCPU 0 differs at position {position + 1}, was the same at {position}\n" in said, said)
    (name, (a, b)), = differences(said).items()
    check(re.fullmatch(r"x\d+", name) and a ^ b == 1, said)
    at = [p for p, kind in dump(good) if kind == "digest"]
    check(at[0] == position - 40 and at[-1] == position + 40 and len(at) > 70, f"{at}")


@test
def a_trace_of_what_diverges_differs_from_the_recording():
    directory, at = spoiled()
    bad = trace("bad-all", directory, "--trace-interval", "1", status=1)
    said = run(REPRISE, "compare", fine(), bad, status=1).stdout
    check(f"vCPU 0 differs at position {at + 1}, was the same at {at}\n" in said, said)


# --- bad input ------------------------------------------------------------------------

@test
def what_has_nothing_in_common_is_not_the_same():
    first = trace("first", fine(), "--trace-to", "0:0")
    second = trace("second", fine(), "--trace-from", "0:1", "--trace-to", "0:10",
                   "--trace-interval", "1")
    check("no position in common" in one_line(run(REPRISE, "compare", first, second, status=2)
                                              .stderr), "said otherwise")


@test_each(["compare", "compare A", "compare A B C", "compare / /", "replay X --trace-from 0:1",
            "record -o X --digest-interval -1"])
def is_refused(arguments):
    one_line(run(REPRISE, *arguments.split(), status=2).stderr)


@test_each(["--trace-from=1:5", "--trace-to=x", "--trace=/proc/x"])
def a_trace_is_refused(option):
    _, line = work.replay(fine(), "--trace", work.place("refused"), option, status=2)
    check(line.startswith("reprise: "), line)


main(work)
