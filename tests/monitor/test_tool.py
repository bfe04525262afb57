# SPDX-License-Identifier: GPL-2.0-or-later
"""The `reprise` command: help, version, usage errors, a full disk."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from harness import BIN, check, main, one_line, run, test, test_each

REPRISE = os.path.join(BIN, "reprise")


@test_each(["--help", "-h", "help"])
def help_names_every_command(how):
    text = run(REPRISE, how).stdout
    for word in ("usage: reprise COMMAND", "\n  dump ", "\n  help ", "\n  version ", "exit status"):
        check(word in text, f"{word!r} is not in:\n{text}")
    check(all(len(line) <= 79 for line in text.splitlines()), "a line is too long")


@test_each(["--version", "-V", "version"])
def version_names_format_and_patches(how):
    text = one_line(run(REPRISE, how).stdout)
    check(re.fullmatch(r"reprise \d+\.\d+\.\d+ \(log format \d+, QEMU patches [0-9a-f]{12}\)", text),
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
    with open("/dev/full", "w") as full:
        done = subprocess.run([REPRISE, "--help"], stdout=full, stderr=subprocess.PIPE)
    check(done.returncode == 2, f"exit status {done.returncode}")
    check(b"cannot write" in done.stderr, done.stderr)


main()
