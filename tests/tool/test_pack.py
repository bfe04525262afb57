# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise pack` and `reprise unpack`, on recordings of no guest that make-recording writes."""

import filecmp
import os
import signal
import subprocess
import tarfile

from tests.lib.checksum import crc32c
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import FILES, folder_of_recording
from tests.lib.tap import check, main, test
from tests.lib.tool import REPRISE


def tool(top, *args, status=0):
    done = run(REPRISE, *args, status=status, cwd=top)
    check(status == 0 or one_line(done.stderr).startswith("reprise: "), done.stderr)
    return done


def same(one, other):
    return filecmp.cmpfiles(one, other, FILES, shallow=False)[0] and \
        not any(filecmp.cmpfiles(one, other, FILES, shallow=False)[1:])


@test
def what_was_packed_is_unpacked():
    with folder_of_recording() as top:
        said = tool(top, "pack", "recording", "file").stdout
        check(f"file, {os.path.getsize(os.path.join(top, 'file'))} bytes" in said, said)
        tool(top, "unpack", "file", "copy")
        check(same(f"{top}/recording", f"{top}/copy"), "files differ")
        check(sorted(os.listdir(f"{top}/copy")) == sorted(os.listdir(f"{top}/recording")), "names")
        tool(top, "verify", "copy")
        # The same bytes again.
        tool(top, "pack", "copy", "again")
        check(filecmp.cmp(f"{top}/file", f"{top}/again", shallow=False), "packed otherwise")


@test
def epochs_are_packed():
    with folder_of_recording("--epochs") as top:
        tool(top, "pack", "recording", "file")
        tool(top, "unpack", "file", "copy")
        check(filecmp.cmp(f"{top}/recording/epochs", f"{top}/copy/epochs", shallow=False), "epochs")
        tool(top, "verify", "copy")


@test
def tar_can_look_inside_and_the_page_says_how_it_is_summed():
    with folder_of_recording() as top:
        tool(top, "pack", "recording", "file")
        listed = run("tar", "-tf", "file", cwd=top).stdout.split()
        check(set(listed) == {f"recording/{name}" for name in FILES} | {"recording.crc32c"}, listed)
        run("tar", "-xf", "file", "--transform", "s/^recording/other/", cwd=top)
        check(same(f"{top}/recording", f"{top}/other"), "files differ")
        with tarfile.open(f"{top}/file") as archive:
            last = archive.getmembers()[-1]
            check(last.name == "recording.crc32c", last.name)
            said = archive.extractfile(last).read().decode()
        with open(f"{top}/file", "rb") as file:
            before = file.read(last.offset)
        check(said == f"{crc32c(before):08x}\n", said)


@test
def what_exists_is_not_touched():
    with folder_of_recording() as top:
        with open(f"{top}/file", "w") as file:
            file.write("precious")
        os.mkdir(f"{top}/directory")
        check("file: File exists" in tool(top, "pack", "recording", "file", status=2).stderr, "")
        check(open(f"{top}/file").read() == "precious", "it was overwritten")
        tool(top, "pack", "recording", "packed")
        check("directory: File exists" in
              tool(top, "unpack", "packed", "directory", status=2).stderr, "directory")
        check("recording: File exists" in
              tool(top, "unpack", "packed", "recording", status=2).stderr, "recording")
        check(os.listdir(f"{top}/directory") == [], "it was filled")


@test
def failures_leave_nothing_behind():
    with folder_of_recording() as top:
        tool(top, "pack", "recording", "packed")
        os.truncate(f"{top}/packed", os.path.getsize(f"{top}/packed") // 2)
        there = sorted(os.listdir(top))
        check("truncated" in tool(top, "unpack", "packed", "copy", status=2).stderr, "truncated")
        check("not a packed" in tool(top, "unpack", "/etc/passwd", "copy", status=2).stderr, "file")
        check("cannot open nothing" in tool(top, "unpack", "nothing", "copy", status=2).stderr, "")
        check("no manifest" in tool(top, "pack", ".", "file", status=2).stderr, "no recording")
        check("/nowhere/" in tool(top, "pack", "recording", "/nowhere/file", status=2).stderr, "")
        check("not a file" in tool(top, "unpack", "recording", "copy", status=2).stderr, "folder")
        check(sorted(os.listdir(top)) == there, os.listdir(top))


@test
def another_tar_is_refused():
    with folder_of_recording() as top:
        run("tar", "-cf", "file", "recording", cwd=top)
        check("not a packed" in tool(top, "unpack", "file", "copy", status=2).stderr, "tar")


@test
def a_signal_removes_what_was_begun():
    """A file that is large enough for a signal to come before its end."""
    with folder_of_recording() as top:
        with open(f"{top}/recording/large", "wb") as file:
            file.truncate(1 << 40)
        # A signal that is not heeded must not cost more than 2 GiB.
        process = subprocess.Popen(["sh", "-c", "ulimit -f 4194304; exec \"$@\"", "sh",
                                    REPRISE, "pack", "recording", "file"], cwd=top,
                                   stderr=subprocess.PIPE, encoding="utf-8")
        while not os.path.exists(f"{top}/file"):
            check(process.poll() is None, "it ended")
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
        check(process.returncode == 2 and "stopped" in one_line(said), said)
        check(not os.path.exists(f"{top}/file"), "it is there")


@test
def usage_errors():
    for command in ("pack", "unpack"):
        for args, word in (([], "takes"), (["x"], "takes"), (["x", "y", "z"], "'z'")):
            done = run(REPRISE, command, *args, status=2)
            check(word in one_line(done.stderr) and done.stdout == "", done.stderr)


main()
