# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder's commands in the human monitor."""

import re

from tests.lib.guest_recording import GuestWorkspace
from tests.lib.live_guest import live_guest, status
from tests.lib.tap import check, main, test

work = GuestWorkspace()


def hmp(qmp, line):
    return qmp("human-monitor-command", **{"command-line": line})["return"]


@test
def the_human_monitor_has_the_same_commands():
    directory = work.place("human")
    with live_guest(work) as guest:
        qmp = guest.connect()
        check(hmp(qmp, "info recorder") == "reprise: nothing is recorded or replayed\r\n",
              hmp(qmp, "info recorder"))
        for line in ("recorder_stop", "recorder_checkpoint"):
            check("nothing is being recorded" in hmp(qmp, line), f"{line} of nothing")
        check(hmp(qmp, f"recorder_start {directory} 4G 3600") == "", "start")
        shown = status(qmp)
        check(shown["max-bytes"] == 4 << 30 and shown["max-seconds"] == 3600, shown)
        check("already" in hmp(qmp, f"recorder_start {directory}"), "started twice")
        text = hmp(qmp, "info recorder")
        check(re.match(rf"reprise: recording {re.escape(directory)} for [\d.]+ s, DMA at \d+\r\n",
                       text),
              text)
        check(re.search(r"on disk: \d+ bytes, \d+ more per second, \d+ free, "
                        r"limit 4294967296 bytes, limit 3600 s\r\n", text), text)
        check(re.search(r"\r\n +1  \w+ +\d+ ", text), text)
        check(hmp(qmp, "recorder_checkpoint") == "checkpoint-1\r\n", "checkpoint")
        check(qmp.event("RECORDER_CHECKPOINT")["name"] == "checkpoint-1", "it is not on disk")
        check(hmp(qmp, "recorder_stop -p") == "", "stop")
        check(not qmp("query-status")["return"]["running"], "it was not paused")
        text = hmp(qmp, "info recorder")
        check(f"the last recording, {directory}, is complete: stopped" in text, text)
        for words, line in (("max-size", "help recorder_start"), ("[-p]", "help recorder_stop"),
                            ("make a checkpoint", "help recorder_checkpoint"),
                            ("info recorder", "help info")):
            check(words in hmp(qmp, line), hmp(qmp, line))
        qmp.close()
    work.replay(directory)
    work.replay(directory, "--from", "1")


main(work)
