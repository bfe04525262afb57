# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise start|stop|status|checkpoint --qmp`: the recorder of a guest that runs."""

import json
import os
import re
import shutil
import socket
import subprocess
import time

from tests.lib.guest_recording import GuestWorkspace
from tests.lib.live_guest import PATIENCE_S, live_guest, socket_of
from tests.lib.process import one_line, run
from tests.lib.qmp import Qemu
from tests.lib.tap import check, main, test
from tests.lib.tool import REPRISE, info, need

work = GuestWorkspace()


def tool(command, *args, status=0):
    return run(REPRISE, command, "--qmp", socket_of(work), *args, status=status)


def check_checkpoint():
    line = one_line(tool("checkpoint").stderr)
    check("checkpoint-1 is being written" in line, line)


@test
def the_tool_starts_shows_and_stops():
    directory = work.place("by-tool")
    with live_guest(work) as guest:
        check(tool("status").stdout == "off\n", tool("status").stdout)
        line = one_line(tool("stop", status=2).stderr)
        check("nothing is being recorded" in line, line)
        done = tool("start", "-o", os.path.relpath(directory), "--max-size", "2G",
                    "--max-seconds", "600", "--digest-interval", "500000")
        check(done.stdout == "" and "recording in " in one_line(done.stderr), done)
        check("already" in one_line(tool("start", "-o", work.place("x"), status=2).stderr), "twice")
        text = tool("status").stdout
        check(re.match(rf"recording {re.escape(directory)} for [\d.]+ s\n  [\d.]+ MiB on disk, "
                       r"[\d.]+ MiB more per second, \d+ MiB free, ends at 2048.0 MiB, "
                       r"ends after 600 s\n  vCPU 0 at \d+: \w+.*\n  vCPU 1 at ", text), text)
        shown = json.loads(tool("status", "--json").stdout)
        check(shown["state"] == "recording" and shown["max-bytes"] == 2 << 30, shown)
        check(len(shown["vcpus"]) == 2 and shown["vcpus"][0]["statistics"], shown)
        check_checkpoint()
        check(one_line(tool("stop", "--pause").stderr) == f"reprise: recorded {directory}", "stop")
        text = tool("status").stdout
        check(text == f"off\n  the last recording, {directory}, is complete: stopped\n", text)
    said = info(directory)
    check(said["complete"] and said["end_reason"] == "stopped", said)
    work.replay(directory)


@test
def a_recording_that_ended_badly_is_status_1():
    directory = work.place("removed")
    with live_guest(work) as guest:
        tool("start", "-o", directory)
        shutil.rmtree(directory)
        done = tool("stop", status=(1, 2))
        line = one_line(done.stderr)
        if done.returncode == 2:        # the recorder was faster, as on a busy host
            check("nothing is being recorded" in line, line)
            line = tool("status").stdout.splitlines()[1]
        check(directory in line and "ended early: " in line and "renamed or removed" in line, line)
        qmp = guest.connect()
        check(qmp("query-status")["return"]["running"], "the guest does not go on")
        qmp.close()


@test
def a_tool_that_is_killed_in_mid_command_does_no_harm():
    directory = work.place("killed-tool")
    with live_guest(work) as guest:
        for _ in range(5):
            starting = subprocess.Popen(
                [REPRISE, "start", "--qmp", socket_of(work), "-o", directory],
                stderr=subprocess.DEVNULL)
            time.sleep(0.02)
            starting.kill()
            starting.wait()
        if json.loads(tool("status", "--json").stdout)["state"] == "off":
            tool("start", "-o", directory)
        tool("stop")
    work.replay(directory)


@test
def a_socket_that_somebody_else_has_is_named():
    need("aarch64")
    with Qemu("aarch64") as qemu:
        path = os.path.join(qemu.dir, "qmp")
        line = one_line(run(REPRISE, "status", "--qmp", path, status=2, timeout=60).stderr)
        check(path in line and "somebody else" in line, line)


@test
def what_is_not_there_is_named():
    for args, word in (
            (["--qmp", "/nowhere/sock"], "/nowhere/sock"),
            (["--qmp", "/" + "x" * 200], "too long"),
            ([], "--qmp SOCK or --domain NAME"),
            (["--qmp", "a", "--domain", "b"], "--qmp SOCK or --domain NAME"),
            (["--qmp", "a", "--connect", "b"], "--connect is for --domain"),
            (["--qmp", "a", "b"], "'b'"),
            (["--nonsense"], "--nonsense")):
        for command in ("start", "stop", "status", "checkpoint"):
            extra = ["-o", work.place("x")] if command == "start" else []
            line = one_line(run(REPRISE, command, *extra, *args, status=2).stderr)
            check(word in line, line)
    for args, word in ((["--qmp", "a"], "-o"),
                       (["--qmp", "a", "-o", "x", "--max-size", "10X"], "'10X'"),
                       (["--qmp", "a", "-o", "x", "--max-size", "0"], "'0'"),
                       (["--qmp", "a", "-o", "x", "--max-size", "99999999999T"], "no size"),
                       (["--qmp", "a", "-o", "x", "--max-seconds", "-1"], "--max-seconds")):
        line = one_line(run(REPRISE, "start", *args, status=2).stderr)
        check(word in line, line)


@test
def a_socket_that_is_not_qemus_is_refused():
    path = work.path("other.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        for says, word in ((b'{"hello": 1}\n', "no QMP socket"), (b"220 mail ready\n", "not JSON"),
                           (b"", "no longer answers")):
            asking = subprocess.Popen([REPRISE, "status", "--qmp", path], stderr=subprocess.PIPE,
                                      encoding="utf-8")
            client, _ = server.accept()
            client.sendall(says)
            client.close()
            said = asking.communicate(timeout=PATIENCE_S)[1]
            check(asking.returncode == 2 and word in one_line(said), said)
    os.unlink(path)


main(work)
