# SPDX-License-Identifier: GPL-2.0-or-later
"""The `reprise` command: help, version, usage errors, a full disk."""

import os
import re
import shutil
import subprocess
import tempfile

from tests.lib import synthetic_recording
from tests.lib.checkout import BUILD, TOP
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, skip, test, test_each
from tests.lib.tool import REPRISE


@test_each(["--help", "-h", "help"])
def help_names_every_command(how):
    text = run(REPRISE, how).stdout
    for word in ("usage: reprise COMMAND", "\n  dump ", "\n  help ", "\n  version ", "exit status",
                 "\n  start ", "\n  stop ", "\n  status ", "\n  checkpoint ", "\n  xml "):
        check(word in text, f"{word!r} is not in:\n{text}")
    check(all(len(line) <= 79 for line in text.splitlines()), "a line is too long")


def commands():
    return re.findall(r"^  (\w[\w-]*) +", run(REPRISE, "help").stdout.split("commands:\n")[1], re.M)


@test_each(commands())
def help_of_a_command_tells_all(command):
    """Usage, options, exit statuses; and they are as it says."""
    text = run(REPRISE, "help", command).stdout
    check(text == run(REPRISE, command, "--help").stdout, "two different texts")
    check(text.startswith(f"usage: reprise {command if command != 'help' else 'COMMAND'}"), text)
    check(all(len(line) <= 79 for line in text.splitlines()), "a line is too long")
    status = re.search(r"^exit status: (.*)", text, re.M | re.S)
    check(status and re.match(r"0\b", status.group(1)), f"no exit status in:\n{text}")
    if command not in ("help", "version"):
        check(re.search(r"\b2 \w", status.group(1)), "what is status 2?")
        check("  --help " in text, "--help is not listed")
    done = run(REPRISE, command, "--no-such-option", status=2)
    check(done.stdout == "" and "--no-such-option" in one_line(done.stderr), done.stderr)


@test_each(["debug", "dump", "info", "repair", "replay", "verify"])
def it_takes_one_recording(command):
    for args, word in (([], "which recording"), (["x", "y"], "'y'")):
        done = run(REPRISE, command, *args, status=2)
        line = one_line(done.stderr)
        check(done.stdout == "" and word in line and "reprise --help" in line, line)


def page():
    return run(os.path.join(TOP, "scripts/manual")).stdout


@test
def the_manual_page_has_every_command_and_option():
    if not shutil.which("man"):
        skip("no man here")
    with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
        file.write(page())
        file.flush()
        shown = run("man", "--warnings", "-l", file.name,
                    env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C"})
    check(shown.stderr == "", shown.stderr)
    text = re.sub(".\b", "", shown.stdout)
    for command in commands():
        check(command == "help" or f"\nREPRISE {command.upper()}\n" in text, command)
        for option in re.findall(r"--[a-z-]+", run(REPRISE, "help", command).stdout):
            check(option in text, f"{command} {option}")
    check("\nEXIT STATUS\n" in text, text)
    with open(os.path.join(BUILD, "reprise.1")) as made:
        check(made.read() == page(), "build/reprise.1 is another one: run make")


def completed(*words):
    """What bash offers for the last word."""
    script = f"""
        . {TOP}/scripts/completion.bash
        COMP_WORDS=(reprise "$@") COMP_CWORD=$#
        _reprise {REPRISE} "${{@: -1}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return run("bash", "-c", script, "bash", *words).stdout.split()


@test
def bash_completes_what_the_help_says():
    check(set(commands()) <= set(completed("")), completed(""))
    check(completed("reco") == ["record"], completed("reco"))
    check(completed("help", "sta") == ["standby", "start", "status"], completed("help", "sta"))
    for command in commands():
        if command not in ("help", "version"):
            offered = completed(command, "--")
            text = run(REPRISE, "help", command).stdout
            listed = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))
            check(listed <= set(offered), f"{command}: {sorted(listed)} {offered}")
    check(completed("replay", "--threads", "s") == ["single"], "--threads")
    check(completed("debug", "--order", "k") == ["karma"], "--order")
    check(completed("debug", "--at", "") == ["start", "end"], "--at")
    check("scripts" in completed("replay", "scr") or os.getcwd() != TOP, completed("replay", "scr"))


@test_each(["--version", "-V", "version"])
def version_names_format_and_patches(how):
    text = one_line(run(REPRISE, how).stdout)
    check(re.fullmatch(r"reprise \d+\.\d+\.\d+ \(log format \d+, QEMU patches [0-9a-f]{12}\)",
                       text),
          text)


@test
def usage_errors_are_one_line_and_status_2():
    for args, word in (([], "no command"), (["frobnicate"], "'frobnicate'"),
                       (["help", "me"], "'me'"), (["--version", "x"], "'x'")):
        done = run(REPRISE, *args, status=2)
        check(done.stdout == "", done.stdout)
        line = one_line(done.stderr)
        check(word in line and "reprise --help" in line, line)


@test
def output_that_cannot_be_written_is_an_error():
    """Also if it was flushed before: it is lost then, and nothing is left to fail at the end."""
    with open("/dev/full", "w") as full, synthetic_recording.recording() as directory:
        os.truncate(os.path.join(directory, "vcpu-0.order"), 100)
        for args in (["--help"], ["verify", directory]):
            done = subprocess.run([REPRISE, *args], stdout=full, stderr=subprocess.PIPE)
            check(done.returncode == 2, f"{args}: exit status {done.returncode}")
            check(b"cannot write" in done.stderr, done.stderr)


main()
