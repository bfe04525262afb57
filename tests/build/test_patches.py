# SPDX-License-Identifier: GPL-2.0-or-later
"""The patch series: complete, explained, small, in QEMU's style, editable."""

import os
import re
import shutil
import tempfile

from tests.lib.checkout import BUILD, TOP
from tests.lib.process import one_line, run
from tests.lib.tap import check, long_test, main, test, test_each

PATCHES = os.path.join(TOP, "qemu-patches")
SERIES = open(os.path.join(PATCHES, "series")).read().split()
TREE = os.path.join(BUILD, "src/qemu")
# A patch is an include and a call; the work is in our files.
MOST_CHANGED_LINES = 60
LONGEST_SUBJECT = 50    # after "subsystem: "


def text_of(patch):
    return open(os.path.join(PATCHES, patch)).read()


def field(patch, name):
    return re.search(rf"\n{name}: (.*)", text_of(patch).split("\ndiff --git")[0])[1]


def added_lines(text):
    return [line[1:] for line in text.splitlines()
            if line.startswith("+") and not line.startswith("+++")]


@test
def series_and_folder_agree():
    files = sorted(f for f in os.listdir(PATCHES) if f != "series")
    check(sorted(SERIES) == files, f"series: {SERIES}\nfolder: {files}")
    check(SERIES == sorted(SERIES), "the numbers are out of order")


@test
def series_has_one_author():
    authors = {field(patch, "From") for patch in SERIES}
    check(len(authors) == 1, f"{authors}: scripts/patches sets one in the tree")


@test
def series_is_sorted_by_purpose():
    page = open(os.path.join(TOP, "docs/patches.md")).read()
    rows = re.search(r"\| group \| begins with \|\n\|-+\|-+\|\n((?:\|.*\n)+)", page)[1]
    firsts = re.findall(r"`(.*)` \|$", rows, re.M)
    check(len(firsts) == rows.count("\n"), f"docs/patches.md: {rows}")
    subjects = [field(patch, "Subject") for patch in SERIES]
    lacking = [first for first in firsts if first not in subjects]
    check(not lacking, f"docs/patches.md names {lacking}, which the series lacks")
    places = [subjects.index(first) for first in firsts]
    check(places == sorted(places) and places[0] == 0,
          f"docs/patches.md has another order: {firsts}")
    for place, patch in enumerate(SERIES):
        ours = field(patch, "Upstream-Status").startswith("Inappropriate")
        check(ours == (place >= places[1]),
              f"{patch} is in the wrong group: what QEMU could use is first")


@test_each(SERIES)
def patch_explains_itself(patch):
    head = text_of(patch).split("\ndiff --git")[0]
    for name in ("Subject: ", "Why: ", "Upstream-Status: ", "Rebase: "):
        check(f"\n{name}" in head, f"{patch} has no '{name.strip()}' (docs/patches.md)")
    status = re.search(r"\nUpstream-Status: (\S+)", head).group(1)
    check(status in ("Inappropriate", "Pending", "Submitted", "Backport", "Accepted"),
          f"{patch}: unknown Upstream-Status {status}")
    check(re.search(r"\nSubject: [\w/.,-]+: [a-z]", head),
          f"{patch}: subject is not 'subsystem: what'")
    subject = field(patch, "Subject")
    check(len(subject.partition(": ")[2]) <= LONGEST_SUBJECT, f"{patch}: a long subject")
    whole = re.sub(r"[^\w.]+", "-", subject).strip("-.")
    check(re.fullmatch(rf"\d+-{re.escape(whole)}\.patch", patch),
          f"{patch} lacks a part of '{subject}'")


@test_each(SERIES)
def patch_is_small_and_clean(patch):
    text = text_of(patch)
    changed = sum(1 for line in text.splitlines() if re.match(r"[+-](?![+-]{2} )", line))
    check(changed <= MOST_CHANGED_LINES,
          f"{patch} changes {changed} lines: move the work to our files")
    for line in added_lines(text):
        check(line == line.rstrip(), f"{patch}: trailing space in '{line}'")
        check("\t" not in line, f"{patch}: tab in '{line}'")
        check(len(line) <= 100, f"{patch}: long line '{line}'")


@test_each(SERIES)
def patch_pleases_checkpatch(patch):
    # As QEMU's own script judges, but for what is not ours: we sign nothing off.
    done = run("perl", f"{TREE}/scripts/checkpatch.pl", "--no-tree", "--no-signoff",
               os.path.join(PATCHES, patch))
    check("total: 0 errors, 0 warnings" in done.stdout, done.stdout)


@test
def tree_is_what_the_series_says():
    run(f"{TOP}/scripts/patches", "check", TREE)


@long_test
def edit_and_refresh_round_trip():
    """The whole workflow, on copies: a new commit becomes a new patch."""
    with tempfile.TemporaryDirectory(prefix="reprise-patches-") as scratch:
        project, tree = f"{scratch}/project", f"{scratch}/qemu"
        shutil.copytree(PATCHES, f"{project}/qemu-patches")
        shutil.copytree(os.path.join(TOP, "scripts"), f"{project}/scripts")
        script = f"{project}/scripts/patches"
        run("git", "clone", "-q", "--shared", "--no-checkout", TREE, tree)
        # The files at the top will do.
        run("git", "-C", tree, "sparse-checkout", "set", "--cone")
        run("git", "-C", tree, "checkout", "-q", "-B", "reprise", "pristine")

        run(script, "apply", tree)
        check(run("git", "-C", tree, "rev-parse", "HEAD").stdout ==
              run("git", "-C", TREE, "rev-parse", "reprise").stdout,
              "commit ids depend on the place")
        check("git rebase -i pristine" in run(script, "edit", tree).stdout, "edit says how")

        with open(f"{tree}/VERSION", "a") as file:
            file.write("changed\n")
        check("uncommitted" in one_line(run(script, "refresh", tree, status=1).stderr), "refresh")
        check("uncommitted" in one_line(run(script, "apply", tree, status=1).stderr), "apply")
        run("git", "-C", tree, "-c", "user.name=Me", "-c", "user.email=me@localhost",
            "commit", "-qam", "version: say changed\n\nWhy: a test.")
        check("patches-refresh" in one_line(run(script, "apply", tree, status=1).stderr),
              "apply would lose a commit")
        run(script, "refresh", tree)
        new = f"{len(SERIES) + 1:04}-version-say-changed.patch"
        check(open(f"{project}/qemu-patches/series").read().split() == SERIES + [new], "series")
        check("Why: a test." in open(f"{project}/qemu-patches/{new}").read(), "message kept")
        for patch in SERIES:
            check(open(f"{project}/qemu-patches/{patch}").read() == text_of(patch),
                  f"{patch} changed by itself")
        run(script, "check", tree)

        # Back to the old series: what was written is safe, so apply may go on.
        shutil.rmtree(f"{project}/qemu-patches")
        shutil.copytree(PATCHES, f"{project}/qemu-patches")
        run(script, "apply", tree)
        run(script, "check", tree)


main()
