# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/example.md leads from a crash to the store that caused it, whatever the recording.

The document's own commands are run: in its indented blocks, "$ " is before what a shell gets, and
"(gdb) " before what the gdb gets that the last of these has started.  What is below them is what
they have said once; here they say it of another recording.
"""

import os
import re
import shlex
import shutil
import subprocess

from tests.lib.checkout import BUILD, TOP
from tests.lib.gdb import symbols
from tests.lib.guest_recording import QUIT_S, GuestWorkspace
from tests.lib.tap import after_test, check, main, skip, test, test_each
from tests.lib.tool import BIN, need, stop_tool

work = GuestWorkspace()
DOCUMENT = os.path.join(TOP, "docs/example.md")
PROGRAM = "tests/guest/logbook.c"
PATIENCE_S = 600            # for one command of the shell, a whole session of gdb for one
MARK = "=== here comes command"
WRONG = r"No symbol|[Uu](ndefined|nknown) command|Cannot |Invalid|[Ee]rror|is not "
HARMLESS = r"^Backtrace stopped|Ignoring packet error, continuing|^#\d+ .*=\S+ .*<error: Cannot "
ARCHES = ["aarch64", "x86_64"]
STORE = {"aarch64": "str", "x86_64": "mov"}


# --- the document --------------------------------------------------------------------------------

def commands_of_the_document(arch):
    """[a shell's command, [gdb's commands]], in order, with what the document says of x86_64."""
    found = []
    with open(DOCUMENT, encoding="utf-8") as file:
        for line in file:
            line = re.sub(r"\baarch64\b", arch, line)
            if line.startswith("    $ "):
                found.append((line[6:].strip(), []))
            elif line.startswith("    (gdb) "):
                found[-1][1].append(line[10:].strip())
    return found


def source():
    with open(os.path.join(TOP, PROGRAM), encoding="utf-8") as file:
        return file.read().splitlines()


def line_with(text):
    """Its number; it is there once."""
    numbers = [number for number, line in enumerate(source(), 1) if line.strip() == text]
    check(len(numbers) == 1, f"{text} is in lines {numbers} of {PROGRAM}")
    return numbers[0]


# --- a shell and a gdb ---------------------------------------------------------------------------

def directory_like_the_top(arch):
    """What the document needs of the source tree is there, and no more."""
    top = work.place(f"example-{arch}")
    os.mkdir(top)
    os.symlink(BUILD, os.path.join(top, "build"))
    os.symlink(os.path.join(TOP, "tests"), os.path.join(top, "tests"))
    return top


def run_shell(command, directory, typed):
    """All that is said, while this is typed; gdb reads no settings of the user's."""
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": directory,
                   "DEBUGINFOD_URLS": "", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(shlex.split(command), cwd=directory, env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    after_test(stop_tool, process, QUIT_S)
    said = process.communicate(typed, timeout=PATIENCE_S)[0]
    check(process.returncode == 0, f"{command}: status {process.returncode}:\n{said}")
    return said


class Said:
    """What the commands said; each is looked for behind the one before."""

    def __init__(self, commands, text):
        self.left = list(zip(commands, text.split(MARK)[1:]))
        check(len(self.left) == len(commands), f"only {len(self.left)} commands were done:\n{text}")
        self.text = text

    def by(self, command):
        while self.left:
            name, said = self.left.pop(0)
            if name == command:
                return said
        raise AssertionError(f"{command} is not in {DOCUMENT}, or not behind the one before")

    def has(self, command, pattern):
        """What matches, of what it said."""
        said = self.by(command)
        found = re.search(pattern, said, re.S)
        check(found, f"{command} did not say {pattern} but {said}\nin all:\n{self.text}")
        return found


def run_gdb(command, directory, commands):
    """Pages and narrow lines are for people."""
    typed = "set width 0\nset height 0\n"
    for number, line in enumerate(commands):
        typed += f"echo {MARK} {number}\\n\n{line}\n"
    return Said(commands, run_shell(command, directory, typed))


@work.shared
def worked_example(arch):
    """Everything in it, once: where, what the guest showed, what info and what gdb said."""
    symbols(arch)
    need(arch)
    if not shutil.which("gdb-multiarch"):
        skip("no gdb-multiarch: install that package")
    directory = directory_like_the_top(arch)
    (record, none), (info, neither), (debug, commands) = commands_of_the_document(arch)
    check(not none and not neither, "which gdb are these for?")
    console = run_shell(record, directory, "")
    check("guest-panic" in console, f"it did not crash:\n{console}")
    recording = os.path.join(directory, re.search(r"-o (\S+)", record).group(1))
    work.use(recording)
    return (recording, console, run_shell(info, directory, ""),
            run_gdb(debug, directory, commands))


# --- what it must lead to -----------------------------------------------------------------------

@test_each(ARCHES)
def the_document_leads_to_the_racing_store(arch):
    _, console, info, said = worked_example(arch)
    crash = re.search(r"^logbook: entry \d+ is of thread (\d+), but says \d+", console, re.M)
    check(crash and "Kernel panic - not syncing" in console, console)
    check("guest-panic" in console and "yes, guest-panic" in info, info)
    victim = int(crash.group(1))

    stacks = said.by("thread apply all backtrace").split("\nThread ")[1:]
    check(len(stacks) == 4 and all("#0 " in stack for stack in stacks), stacks)
    check([int(stack.split()[0]) for stack in stacks if " in panic (" in stack] == [victim + 1],
          stacks)

    # Where it was noticed: the thread that says so, which has the lock.
    stop = said.has("reverse-continue", r"Thread (\d+) hit Breakpoint 1, entry_is_broken")
    check(int(stop.group(1)) == victim + 1, said.text)
    said.has("backtrace", rf"#0  entry_is_broken .*#1 [^#]* in write_entry \(author=\S*{victim}\) ")
    culprit = int(said.has("print entry->author", r"= (\d+)\n").group(1))
    check(culprit != victim, said.text)
    owner = said.has("print logbook.lock.__data.__owner", r"= (\d+)\n").group(1)
    check(owner != "0", said.text)

    # The store: by the other one, while the victim has the lock.  If a third one has stored
    # before it, the value was not the victim's any more.
    stop = said.has("reverse-continue",
                    r"Thread (\d+) hit Hardware watchpoint 2: -location entry->author\n"
                    rf".*Old value = {culprit}\nNew value = \d+\n.*add_entry \(author={culprit}\) "
                    rf"at {PROGRAM}:{line_with('entry->author = author;')}\n")
    check(int(stop.group(1)) == culprit + 1, said.text)
    said.has("backtrace", rf"#0 [^#]*add_entry .*#1 [^#]*in write_urgent_entry .*"
                          rf"#2 [^#]*in write_entries \(id={culprit}\)")
    said.has("x/i $pc", rf"<add_entry\+\d+>:\s+{STORE[arch]}\s")
    said.has("print logbook.lock.__data.__owner", rf"= {owner}\n")
    moment = said.has("monitor when", r"moment (\d+) of \d+ to \d+, vCPUs at 0:").group(1)
    said.has('eval "monitor who %p", &logbook.written',
             rf"vCPU {victim} at \d+  load .*\n-- now, at moment {moment}\n.*vCPU {culprit} at ")
    said.has("thread $victim", rf"Switching to thread {victim + 1} ")

    # Its caller, which has not asked for the lock.
    said.has("thread $culprit", rf"Switching to thread {culprit + 1} ")
    said.has("reverse-finish", rf"write_urgent_entry \(author={culprit}\) at {PROGRAM}:")
    said.has("list", r"The bug: ")

    said.has("reverse-continue", rf"Thread {victim + 1} hit Breakpoint \d+, entry_is_broken")
    said.has('eval "monitor last-write %p 4", &entry->author',
             rf"moment {moment}  vCPU {culprit} at \d+  store 0x\w+,4  pc 0x\w+  "
             rf"0x\d+ -> {culprit:#x}\n")


@test_each(ARCHES)
def nothing_fails_on_the_way(arch):
    *_, said = worked_example(arch)
    lines = said.text[said.text.index(MARK):].splitlines()
    # Beyond the kernel's outermost frame there is nothing, arguments of frames may be lost to
    # optimisation, and a monitor command may take long.
    wrong = [line for line in lines if re.search(WRONG, line) and not re.search(HARMLESS, line)]
    check(not wrong, f"{wrong} in:\n{said.text}")


@test
def source_that_the_document_quotes_is_as_it_quotes_it():
    """With the numbers of the lines, and in the functions that it names there."""
    with open(DOCUMENT, encoding="utf-8") as file:
        text = file.read()
    lines = source()
    quoted = re.findall(r"^    (\d+)\t(.*)$", text, re.M)
    check(len(quoted) > 5, f"{quoted}")
    for number, line in quoted:
        check(lines[int(number) - 1] == line, f"line {number} is not {line}")
    named = re.findall(rf"(\w+) \([^()]*\) at {PROGRAM}:(\d+)$", text, re.M)
    check(len(named) > 5, f"{named}")
    for function, number in named:
        heads = [re.match(r"(?:static .*?|)(\w+)\([^;]*\)$", line) for line in lines[:int(number)]]
        last = [head.group(1) for head in heads if head][-1]
        check(last == function, f"line {number} is in {last}, not in {function}")


main(work)
