# SPDX-License-Identifier: GPL-2.0-or-later
"""What a workspace leaves: nothing of tests that pass, one recording of a test that fails."""

import os
import re
import shlex
import subprocess
import sys
import tempfile

from tests.lib.checkout import TOP
from tests.lib.process import run
from tests.lib.tap import after_test, check, main, test
from tests.lib.tool import info, need

# Tests that are run in a file of their own start with this.
HEAD = """
import os
import shutil
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import run
from tests.lib.synthetic_recording import MAKE
from tests.lib.tap import check, main, test

work = GuestWorkspace()

def make(name):
    directory = work.place(name)
    run(MAKE, directory)
    return directory

@work.shared
def shared(name="shared"):
    with open(work.path("calls"), "a") as file:
        print("called", file=file)
    return make(name), "made"
"""
TAIL = "\nmain(work)\n"


class File:
    """A file of tests that has been run, and what it left."""

    def __init__(self, tests):
        holder = tempfile.TemporaryDirectory(prefix="reprise-workspace-")
        after_test(holder.cleanup)
        self.temporary = os.path.join(holder.name, "tmp")
        os.mkdir(self.temporary)
        path = os.path.join(holder.name, "test_of_a_workspace.py")
        with open(path, "w") as file:
            file.write(HEAD + tests + TAIL)
        done = subprocess.run([sys.executable, path], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                              env={**os.environ, "PYTHONPATH": TOP, "TMPDIR": self.temporary})
        self.status, self.said = done.returncode, done.stdout

    def left(self):
        """Return the names of all that is in its workspace, or None if that is gone."""
        workspaces = os.listdir(self.temporary)
        check(len(workspaces) <= 1, workspaces)
        return sorted(os.listdir(self.directory(workspaces[0]))) if workspaces else None

    def directory(self, *names):
        return os.path.join(self.temporary, *names)

    def commands(self):
        """Return those that it says replay what is kept."""
        return re.findall(r"^# the recording is kept; to replay it: (.*)$", self.said, re.M)

    def replayed(self):
        """Return the paths of the recordings in these commands."""
        found = [shlex.split(command) for command in self.commands()]
        return [words[words.index("replay") + 1] for words in found]


@test
def tests_that_pass_leave_nothing():
    file = File("""
@test
def it_passes():
    check(os.path.exists(make("one")) and os.path.exists(shared()[0]), "they are not there")

@test
def so_does_this():
    check(shared("shared") == (work.path("shared"), "made"), shared())
    with open(work.path("calls")) as calls:
        check(calls.read().count("called") == 1, "it was made again")
""")
    check(file.status == 0 and file.left() is None and not file.commands(), file.said)


@test
def an_import_makes_no_directory():
    file = File("import sys\nsys.exit(3)\n")
    check(file.status == 3 and file.left() is None, file.said)


@test
def a_failure_keeps_what_that_test_used_last():
    file = File("""
@test
def it_passes():
    make("one")
    shared()

@test
def it_fails():
    make("two")
    first, other = make("one"), make("three")
    work.use(first)
    work.place("nothing")
    check(False, "on purpose")

@test
def it_passes_later():
    check(make("one") != os.path.join(work.directory, "one"), "it is overwritten")
    check(make("one") == work.path("one"), work.path("one"))
""")
    check(file.status == 1 and file.left() == ["one"], f"{file.left()}\n{file.said}")
    directory, = file.replayed()
    check(info(directory)["complete"], directory)
    check(file.said.index("kept; to replay") < file.said.index("not ok 2"), file.said)


@test
def failures_keep_one_each_also_of_those_that_are_shared_or_damaged():
    file = File("""
@test
def one_fails():
    shared()
    check(False, "on purpose")

@test
def another_fails():
    spoiled = shutil.copytree(shared()[0], work.place("spoiled"))
    os.unlink(os.path.join(spoiled, "manifest"))
    with open(spoiled + ".console", "w") as console:
        console.write("beside it")
    check(False, "on purpose")

@test
def this_fails_without_one():
    check(False, "on purpose")
""")
    check(file.left() == ["shared", "spoiled", "spoiled.console"], f"{file.left()}\n{file.said}")
    check([os.path.basename(path) for path in file.replayed()] == ["shared", "spoiled"], file.said)


@test
def what_is_shared_and_fails_is_made_again():
    file = File("""
@work.shared
def fails_once():
    directory = make("once")
    check(os.path.basename(directory) != "once", "on purpose")
    return directory

@test
def one_fails():
    fails_once()

@test
def one_passes():
    fails_once()
""")
    check(file.left() == ["once"] and "\nok 2" in file.said, f"{file.left()}\n{file.said}")


@test
def the_command_replays_a_guest_as_the_test_did():
    need("aarch64")
    file = File("""
@test
def it_fails():
    directory = work.hello()[0]
    work.replay(directory, "--threads", "single")
    check(False, "on purpose")
""")
    check(file.left() == ["hello"], f"{file.left()}\n{file.said}")
    command, = file.commands()
    check(command.endswith("/hello --threads single"), command)
    done = run("sh", "-c", command)
    check("replayed identically" in done.stderr and "\nhello" in done.stdout, done)


main()
