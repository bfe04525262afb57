# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/run: files side by side, whole blocks of output, one last line, nothing left behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from tests.lib.checkout import TOP
from tests.lib.tap import after_test, check, main, test

PATIENCE_S = 60
PASSES = 'print("1..1")\nprint("ok 1 - it")\n'
FAILS = 'print("1..2")\nprint("ok 1 - it")\nprint("# because")\nprint("not ok 2 - other")\n'
SKIPS = 'print("1..1")\nprint("ok 1 - it # SKIP not here")\n'
# Tells when it began and ended; between, waits until @{others} files have begun, or a while.
MEETS = """
import glob, time
open("{name}.began", "w").write(str(time.monotonic()))
end = time.monotonic() + {seconds}
while len(glob.glob("*.began")) < {others} and time.monotonic() < end:
    time.sleep(0.01)
print("1..1")
print("ok 1 - met {{}}".format(len(glob.glob("*.began"))), flush=True)
time.sleep(0.1)
open("{name}.ended", "w").write(str(time.monotonic()))
"""
# Has a child, as a test has a guest, which it ends when it is interrupted.
LINGERS = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "1000"])
open("{name}.pids", "w").write(str(child.pid))
print("1..1", flush=True)
try:
    time.sleep(1000)
except KeyboardInterrupt:
    {at_interrupt}
"""


class Project:
    """A checkout with a copy of tests/run and these files of tests, {name: text}."""

    def __init__(self, **files):
        holder = tempfile.TemporaryDirectory(prefix="reprise-run-")
        after_test(holder.cleanup)
        self.top = holder.name
        os.mkdir(self.path("tests"))
        shutil.copy2(os.path.join(TOP, "tests/run"), self.path("tests/run"))
        for name, text in files.items():
            with open(self.path(f"tests/test_{name}.py"), "w") as file:
                file.write(text)

    def path(self, name):
        return os.path.join(self.top, name)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def start(self, *args):
        return subprocess.Popen([sys.executable, self.path("tests/run"), *args],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, encoding="utf-8")

    def run(self, *args, status=0):
        """Return the lines that it prints."""
        process = self.start(*args)
        said = process.communicate(timeout=PATIENCE_S)[0]
        check(process.returncode == status, f"status {process.returncode}:\n{said}")
        return said.splitlines()

    def order(self, *args):
        """Return the names of files in the order of their blocks."""
        return [line.removeprefix("== tests/test_").removesuffix(".py")
                for line in self.run(*args) if line.startswith("== ")]


def meets(name, others, seconds=PATIENCE_S / 2):
    return MEETS.format(name=name, others=others, seconds=seconds)


@test
def the_last_line_counts_all():
    for jobs in ("1", "3"):
        project = Project(a=PASSES, b=FAILS, c=SKIPS, d=PASSES)
        lines = project.run("-j", jobs, status=1)
        check(lines[-1] == "3 passed, 1 failed, 1 skipped", lines)
        check("# because" in lines and any("again: " in line for line in lines), lines)
    check(Project(a=PASSES).run()[-1] == "1 passed, 0 failed", "all pass")
    check(Project(a=SKIPS).run(status=1)[-1] == "0 passed, 0 failed, 1 skipped", "nothing ran")
    check(Project(a=PASSES, b=FAILS).run("test_a")[-1] == "1 passed, 0 failed", "a word")


@test
def results_that_lack_or_are_too_many_are_a_failure():
    for text in ('print("1..2")\nprint("ok 1 - it")\n', 'print("ok 1 - it")\n', "",
                 PASSES + 'raise SystemExit(3)\n'):
        lines = Project(a=text).run(status=1)
        check(re.fullmatch(r"[01] passed, 1 failed", lines[-1]), lines)


@test
def files_run_side_by_side_and_are_shown_in_whole_blocks():
    names = "abc"
    project = Project(**{name: meets(name, 3) for name in names})
    lines = project.run("-j", "3")
    blocks = [(lines[i], lines[i + 1]) for i, line in enumerate(lines) if line.startswith("==")]
    check(len(blocks) == 3 and all("ok 1 - met 3" in result for _, result in blocks), lines)


@test
def one_job_is_one_after_the_other():
    project = Project(a=meets("a", 2, 0.3), b=meets("b", 2, 0.3))
    project.run("--jobs", "1")
    times = sorted((float(project.read(f"{name}.began")), float(project.read(f"{name}.ended")))
                   for name in "ab")
    check(times[0][1] <= times[1][0], times)


@test
def what_must_run_alone_runs_last_and_alone():
    project = Project(a='RUN_ALONE = "it measures"\n' + meets("a", 9, 0.2),
                      b='RUN_ALONE = "it measures"\n' + meets("b", 9, 0.2),
                      c=meets("c", 2), d=meets("d", 2))
    project.run("-j", "2")
    began = {name: float(project.read(f"{name}.began")) for name in "abcd"}
    ended = {name: float(project.read(f"{name}.ended")) for name in "abcd"}
    check(max(ended["c"], ended["d"]) <= min(began["a"], began["b"]), (began, ended))
    check(ended["a"] <= began["b"] or ended["b"] <= began["a"], (began, ended))


@test
def the_longest_of_the_last_run_is_the_first():
    def set_times(text):
        with open(project.path("build/test-times.json"), "w") as file:
            file.write(text)

    def times():
        return json.loads(project.read("build/test-times.json"))

    project = Project(a=PASSES, b=PASSES, c=PASSES)
    project.run()
    check(set(times()) == {f"tests/test_{name}.py" for name in "abc"}, times())
    set_times('{"tests/test_a.py": 1, "tests/test_b.py": 300, "tests/test_c.py": 20}')
    check(project.order("-j", "1") == ["b", "c", "a"], "another order")
    # A new file might take long, and a run of some files keeps the times of others.
    set_times('{"tests/test_a.py": 1, "tests/test_b.py": 300}')
    check(project.order("-j", "1") == ["c", "b", "a"], "another order")
    set_times('{"tests/test_a.py": 500, "tests/test_b.py": 300}')
    project.run("test_a")
    check(times()["tests/test_a.py"] < 500 and times()["tests/test_b.py"] == 300, times())
    # What is no list of times is not read.
    for text in ("", "[]", "{", '{"a": "x"}'):
        set_times(text)
        check(len(project.order()) == 3, text)


def is_there(pid):
    """Return true if it runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@test
def an_interrupt_ends_all_that_runs():
    """Also guests of a test that ends without ending them, and with either signal."""
    for number in (signal.SIGINT, signal.SIGTERM):
        project = Project(a=LINGERS.format(name="a", at_interrupt="child.kill()"),
                          b=LINGERS.format(name="b", at_interrupt="sys.exit(1)"), c=PASSES)
        process = project.start("-j", "2")
        deadline = time.monotonic() + PATIENCE_S
        while not all(os.path.exists(project.path(f"{name}.pids")) and project.read(f"{name}.pids")
                      for name in "ab"):
            # The third is a new file, and may be one of the first two.
            check(time.monotonic() < deadline and process.poll() is None, "they do not start")
            time.sleep(0.02)
        process.send_signal(number)
        said = process.communicate(timeout=PATIENCE_S)[0]
        check(process.returncode == 130 and "interrupted: tests/test_" in said, said)
        for name in "ab":
            check(not is_there(int(project.read(f"{name}.pids"))), f"{name}'s guest is there")


@test
def a_number_of_jobs_that_makes_no_sense_is_refused():
    for jobs in ("0", "-1", "many"):
        said = Project(a=PASSES).run("-j", jobs, status=2)
        check("--jobs" in said[-1], said)


main()
