# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise dump`, on logs made here by the tables of docs/log-format.md alone.

So these tests also tell whether that page is enough to write a log.
"""

import json
import os
import struct
import tempfile

from tests.lib import checksum
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test
from tests.lib.tool import REPRISE

LOG_VERSION = 5
ORDER, DATA, KARMA, RERUN = 0, 1, 2, 3
INTERRUPT, WAKE, DROP, DMA_WRITE, LOAD = 1, 2, 4, 7, 9
EPISODE_AGAIN, CUT, STAMPED_CUT = 17, 18, 20
WAIT, WAIT_HERE = 32, 64        # on stream 0
WAIT_AGAIN = 128                # on the stream of the wait before
DROP_NEXT = 96                  # of the page after that of the drop before
STAMPED = 32                    # with the least time
EPISODE = 64                    # without sets


def crc32c(data):
    return struct.pack("<I", checksum.crc32c(data))


def unsigned(value):
    coded = b""
    while value >= 0x80:
        coded += bytes([value & 0x7f | 0x80])
        value >>= 7
    return coded + bytes([value])


def log(stream, kind, n_vcpus, blocks, last=True, features=0):
    """A file; a block is (start, end, [event as bytes, ...])."""
    data = b"RepriseL" + struct.pack("<IIIHBBI", LOG_VERSION, 0, features, stream, kind, 0, n_vcpus)
    data += crc32c(data)
    for i, (start, end, events) in enumerate(blocks):
        payload = b"".join(events)
        flags = 2 if last and i == len(blocks) - 1 else 0
        header = b"RBlk" + struct.pack("<HBBQQQIII", stream, kind, flags, i, start, end,
                                       len(events), len(payload), len(payload)) + crc32c(payload)
        data += header + crc32c(header) + payload
    return data


def event(head, *fields):
    return bytes([head]) + b"".join(unsigned(v) for v in fields)


def files():
    """A recording of two vCPUs and its dump."""
    return {
        "vcpu-0.order": log(0, ORDER, 2, [
            (0, 300, [event(WAIT_AGAIN + 16 * (39 % 8) + 100 % 16, 100 // 16, 39 // 8),
                      event(WAIT_HERE + 1, 3 - 1),
                      event(DROP, 0, 1 + 4 * 5), event(DROP_NEXT, 0),
                      event(INTERRUPT, 200, 5, 1)]),
            (300, 300, [event(WAIT_HERE + 1, 41 - 1)])]),
        "vcpu-0.data": log(0, DATA, 2, [
            (0, 300, [event(LOAD, 99, 0x1234, 0), event(LOAD, 201, 0, 2)])]),
        "vcpu-1.order": log(1, ORDER, 2, [(0, 0, [])]),
        "vcpu-1.data": log(1, DATA, 2, [(0, 0, [])]),
        "dma.order": log(2, ORDER, 2, [(0, 1, [event(DMA_WRITE, 1, 0x40000000, 3) + b"abc"])]),
    }


VCPU_0 = """\
vcpu 0 data   @99  load value=0x1234 result=0
vcpu 0 order  @100  wait stream=1 steps=40
vcpu 0 order  @100  wait stream=1 steps=43
vcpu 0 order  @100  drop address=0x5000
vcpu 0 order  @100  drop address=0x6000
vcpu 0 order  @300  interrupt number=5 kind=1
vcpu 0 order  @300  wait stream=1 steps=41
vcpu 0 data   @300  load value=0x0 result=2
"""
DMA = "dma order  @1  dma-write address=0x40000000 bytes=3\n"


def dump(contents, *args, status=0):
    with tempfile.TemporaryDirectory() as directory:
        for name, data in contents.items():
            with open(os.path.join(directory, name), "wb") as file:
                file.write(data)
        done = run(REPRISE, "dump", directory, *args, status=status)
        check(status == 0 or one_line(done.stderr).startswith("reprise: "), done.stderr)
        check(status != 0 or done.stderr == "", done.stderr)
        return done


def same(text, expected):
    check(text == expected, f"got:\n{text}\nexpected:\n{expected}")


@test
def all_events_in_order_of_position():
    same(dump(files()).stdout, VCPU_0 + DMA)


@test
def one_stream_and_some_events():
    same(dump(files(), "--vcpu", "0").stdout, VCPU_0)
    same(dump(files(), "--vcpu=1").stdout, "")
    same(dump(files(), "--dma").stdout, DMA)
    same(dump(files(), "--count", "2").stdout, "".join(VCPU_0.splitlines(True)[:2]))
    same(dump(files(), "--count", "0").stdout, "")


@test
def from_a_position_on():
    lines = VCPU_0.splitlines(True)
    same(dump(files(), "--from", "100", "--vcpu", "0").stdout, "".join(lines[1:]))
    same(dump(files(), "--from=300").stdout, "".join(lines[5:]))
    same(dump(files(), "--from", "1", "--dma").stdout, DMA)
    same(dump(files(), "--from", "101", "--count", "1").stdout, lines[5])
    same(dump(files(), "--from", "301").stdout, "")
    # A point: of each vCPU another position, and all of DMA.
    same(dump(files(), "--from", "0:300,1:7").stdout, "".join(lines[5:]) + DMA)
    for bad, word in (("x", "'x'"), ("-1", "'-1'"), ("0:1", "has 1 of the recording's 2 vCPUs")):
        check(word in dump(files(), "--from", bad, status=2).stderr, bad)


@test
def json_has_an_object_per_line():
    said = [json.loads(line) for line in dump(files(), "--json").stdout.splitlines()]
    check(said[1] == {"vcpu": 0, "log": "order", "position": 100, "event": "wait",
                      "fields": {"stream": 1, "steps": 40}}, said[1])
    check(said[0]["fields"] == {"value": "0x1234", "result": 0}, said[0])
    check(said[-1] == {"vcpu": None, "log": "order", "position": 1, "event": "dma-write",
                       "fields": {"address": "0x40000000", "bytes": b"abc".hex()}}, said[-1])
    check(len(said) == 9, said)
    text = dump(files(), "--json", "--vcpu", "0", "--from", "300", "--count", "1").stdout
    check(json.loads(one_line(text))["event"] == "interrupt", text)
    contents = files()
    contents["vcpu-0.order"] = contents["vcpu-0.order"][:-1]
    last = json.loads(dump(contents, "--json", "--vcpu", "0").stdout.splitlines()[-1])
    check(last == {"vcpu": 0, "log": "order", "cut_off_after": 300}, last)


def episodes():
    """A recording of one vCPU by Karma and Rerun, and not by FDR."""
    def of(stream, kind, end, *events):
        return log(stream, kind, 1, [(0, end, list(events))], features=1 | 2 | 4)
    return {
        "vcpu-0.order": of(0, ORDER, 10, event(WAKE, 10)),
        "vcpu-0.data": of(0, DATA, 0),
        # The list of streams of vCPU 0: 1 2 3 4 5 6.
        "vcpu-0.karma": of(0, KARMA, 300, event(EPISODE + 1, 10), event(EPISODE + 8 * 1 + 1, 20),
                           event(EPISODE_AGAIN, 270, 2, 0, 1) + b"\1", event(CUT, 0)),
        "vcpu-0.rerun": of(0, RERUN, 30, event(STAMPED + 4, 10), event(STAMPED + 31, 20, 0),
                           event(STAMPED_CUT, 0)),
        "dma.order": of(1, ORDER, 0),
        "dma.karma": of(1, KARMA, 0, event(CUT, 0)),
        "dma.rerun": of(1, RERUN, 0, event(STAMPED_CUT, 0)),
    }


@test
def episodes_come_before_what_follows_them():
    same(dump(episodes()).stdout, """\
vcpu 0 karma  @10  episode pred={} succ={1} bytes=0
vcpu 0 rerun  @10  stamped time=4
vcpu 0 order  @10  wake
vcpu 0 karma  @30  episode pred={1} succ={1} bytes=0
vcpu 0 rerun  @30  stamped time=36
vcpu 0 rerun  @30  stamped-cut
vcpu 0 karma  @300  episode pred={1} succ={} bytes=1
vcpu 0 karma  @300  cut
dma karma  @0  cut
dma rerun  @0  stamped-cut
""")
    said = [json.loads(line) for line in dump(episodes(), "--json").stdout.splitlines()]
    check(said[6] == {"vcpu": 0, "log": "karma", "position": 300, "event": "episode",
                      "fields": {"pred": [1], "succ": [], "bytes": "01"}}, said[6])


@test
def a_log_that_is_cut_off_says_so():
    contents = files()
    contents["vcpu-0.order"] = contents["vcpu-0.order"][:-1]
    lines = VCPU_0.splitlines(True)
    same(dump(contents, "--vcpu", "0").stdout,
         "".join(lines[:6] + lines[7:]) + "vcpu 0 order  cut off after @300\n")


@test
def damage_is_one_line_after_the_good_events():
    contents = files()
    bad = bytearray(contents["vcpu-0.order"])
    bad[-1] ^= 1
    contents["vcpu-0.order"] = bytes(bad)
    done = dump(contents, status=2)
    same(done.stdout, "".join(VCPU_0.splitlines(True)[:6]))
    for word in ("/vcpu-0.order: byte ", "checksum"):
        check(word in done.stderr, done.stderr)
    # Not looked at, not complained about.
    dump(contents, "--dma")
    dump(contents, "--count", "3")


@test
def unusable_recordings_are_refused():
    contents = files()
    del contents["vcpu-1.data"]
    check("vcpu-1.data: No such file" in dump(contents, status=2).stderr, "missing file")
    check("vcpu-0.order: No such file" in dump({}, status=2).stderr, "empty directory")
    contents = files()
    contents["vcpu-0.order"] = b"\x7fELF" + bytes(100)
    check("not a log" in dump(contents, status=2).stderr, "another file")
    check("no vCPU 2; its vCPUs are 0 to 1" in dump(files(), "--vcpu", "2", status=2).stderr,
          "too large a vCPU")


@test
def usage_errors_are_one_line():
    for args, word in ((["dump", "a", "--vcpu", "-1"], "'-1'"), (["dump", "a", "--vcpu"], "--vcpu"),
                       (["dump", "a", "--from"], "--from"),
                       (["dump", "a", "--count", "x"], "'x'"),
                       (["dump", "a", "--dma", "--vcpu", "0"], "exclude")):
        done = run(REPRISE, *args, status=2)
        line = one_line(done.stderr)
        check(word in line and "reprise --help" in line and done.stdout == "", line)


main()
