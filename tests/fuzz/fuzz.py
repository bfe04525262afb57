# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds the targets of tests/fuzz for libFuzzer, with seeds of a real recording, and runs them."""

import glob
import json
import os
import re
import shutil
import struct
import subprocess

from tests.lib.checkout import BUILD, TOP
from tests.lib.tool import BIN

TARGETS = ["manifest", "place", "log", "episodes", "ram", "sums", "epochs", "pack",
           "json"]
PLACE = os.path.join(BUILD, "fuzz")
HERE = os.path.dirname(os.path.abspath(__file__))
LOGS = ["vcpu-0.order", "vcpu-0.data", "vcpu-1.order", "vcpu-1.data", "dma.order",
        "vcpu-0.karma", "vcpu-0.rerun", "vcpu-1.karma", "vcpu-1.rerun", "dma.karma", "dma.rerun"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g", "-O1"]
# glib keeps what is no leak until the end; a hang is a second for a few kilobytes.
OPTIONS = ["-timeout=10", "-rss_limit_mb=4000", "-max_len=65536", "-print_final_stats=1"]
FILE_HEADER, BLOCK_HEADER = 32, 52
EVENT = (rb'{"event": "RECORDER_STOPPED", "data": {"reason": "\u00fc \ud83d\ude00", '
         rb'"complete": true, "free-bytes": 18446744073709551615, "list": [-0.5e+1, null, {}]}}')


# The first byte is the order.  Then, for each stream: how many bytes its events have, and these.
KARMA_EVENTS = bytes([0, 6, 65, 10, 64 + 8, 10, 18, 0, 6, 64 + 8 + 1, 30, 18, 0, 64, 5, 2, 18, 0])
RERUN_EVENTS = bytes([1, 6, 32, 10, 34, 10, 20, 0, 4, 33, 30, 20, 0, 2, 20, 0])
# Of two vCPUs; of the sizes of logs, verify looks at whether the files have them.
EPOCHS = "reprise epochs 1\n" + "".join(
    f"epoch {number} us 1763170000{number}00000 point 0:{number}5,1:{number} dma {number} "
    f"ram {'0123456789abcdef' * 2} registers {'0' * 16},{'f' * 16} stores {'5' * 16},{'6' * 16} "
    f"logs {','.join(['0'] * 12)} crc32c=00000000\n" for number in (1, 2, 3))


def clang():
    """The compiler, or None: then nothing can be fuzzed."""
    return shutil.which("clang") or shutil.which("clang-14")


# --- building ---------------------------------------------------------------------------

def sources():
    """What the core library was built from, but for the checksums; of the tool, what reads JSON."""
    with open(f"{BUILD}/core/compile_commands.json") as file:
        built = [os.path.normpath(os.path.join(entry["directory"], entry["file"]))
                 for entry in json.load(file) if entry["output"].startswith("libreprise-core.a.p/")]
    return [*sorted(path for path in built if not path.endswith("/crc32c.c")),
            os.path.join(HERE, "crc32c.c"), os.path.join(TOP, "tool/json-reader.c"),
            os.path.join(TOP, "tool/json.c")]


def build():
    """Only what is older than its sources, or than any header."""
    flags = subprocess.run(["pkg-config", "--cflags", "glib-2.0"], stdout=subprocess.PIPE,
                           encoding="utf-8", check=True).stdout.split()
    libraries = subprocess.run(["pkg-config", "--libs", "glib-2.0", "liblz4"],
                               stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.split()
    compile_one = [clang(), *SANITIZE, "-fsanitize=fuzzer-no-link", "-std=gnu11",
                   "-D_FILE_OFFSET_BITS=64", f"-I{TOP}", f"-I{BUILD}/core",
                   '-DREPRISE_VERSION="fuzz"', *flags, "-c"]
    os.makedirs(PLACE, exist_ok=True)
    objects, headers = [], glob.glob(f"{TOP}/*/*.h")
    for source in sources():
        objects.append(os.path.join(PLACE, os.path.basename(source)[:-2] + ".o"))
        if not is_newer(objects[-1], source, *headers):
            subprocess.run([*compile_one, source, "-o", objects[-1]], check=True)
    for target in TARGETS:
        program, source = program_of(target), os.path.join(HERE, "target.c")
        if not is_newer(program, source, *headers, *objects):
            subprocess.run([*compile_one, f"-DTARGET={target}", source, "-o", program + ".o"],
                           check=True)
            subprocess.run([clang(), *SANITIZE, "-fsanitize=fuzzer", program + ".o", *objects,
                            *libraries, "-o", program], check=True)


def program_of(target):
    return os.path.join(PLACE, f"fuzz-{target}")


def is_newer(path, *sources):
    return os.path.exists(path) and all(os.path.getmtime(path) > os.path.getmtime(source)
                                        for source in sources)


# --- seeds --------------------------------------------------------------------------------

def without_log_sums(data, most_blocks=3):
    """The first blocks of a log, with checksums of 0."""
    data, at = bytearray(data), FILE_HEADER
    struct.pack_into("<I", data, 28, 0)
    for _ in range(most_blocks):
        if at + BLOCK_HEADER > len(data):
            break
        stored = struct.unpack_from("<I", data, at + 40)[0]
        struct.pack_into("<II", data, at + 44, 0, 0)
        at += BLOCK_HEADER + stored
    return bytes(data[:at])


def without_sum(data):
    """A text whose last line is a checksum."""
    lines = data.decode().splitlines()
    lines[-1] = re.sub(r"[0-9a-f]{8}$", "00000000", lines[-1])
    return "".join(line + "\n" for line in lines).encode()


def small_ram():
    """An image of 1 MiB with one page: header, chunk, table."""
    page = bytes(range(256)) * 16
    chunk = struct.pack("<IIQQII", 0, 0, 1, 1 << 5, len(page), 0) + page
    table = struct.pack("<QII", 1 << 20, 3, 0) + b"ram"
    offset = 64 + len(chunk)
    header = b"RPRS-RAM" + struct.pack("<IIIIQQQIIII", 1, 0, 0, 1, 1, offset, offset + len(table),
                                       4096, 262144, 0, 0)
    return header + chunk + table


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def make_seeds():
    """Of a recording of a guest with two vCPUs, and a later checkpoint, with all orders."""
    recorded, recording = os.path.join(PLACE, "recorded"), os.path.join(PLACE, "recording")
    packed = os.path.join(PLACE, "packed")
    shutil.rmtree(recorded, ignore_errors=True)
    shutil.rmtree(recording, ignore_errors=True)
    for target in TARGETS:
        os.makedirs(os.path.join(PLACE, "seeds", target), exist_ok=True)
    subprocess.run([f"{BIN}/reprise", "record", "-o", recorded, "--arch", "aarch64",
                    "--smp", "2", "--checkpoint-interval", "0.5", "--run", "racey -n 2000"],
                   check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    subprocess.run([f"{BIN}/reprise", "convert", recorded, recording, "--order",
                    "fdr,karma:4096,rerun:4096"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(recorded)
    seeds = {
        ("episodes", "karma"): KARMA_EVENTS,
        ("episodes", "rerun"): RERUN_EVENTS,
        ("manifest", "manifest"): without_sum(read(recording, "manifest")),
        ("place", "place"): without_sum(read(recording, "checkpoint-1", "place")),
        ("sums", "sums"): without_sum(read(recording, "checkpoint-1", "sums")),
        ("epochs", "epochs"): EPOCHS.encode(),
        ("ram", "ram"): small_ram(),
        ("json", "event"): EVENT,
    }
    for number, name in enumerate(LOGS):
        seeds["log", name] = bytes([number]) + without_log_sums(read(recording, name))
    # A pack of the small files alone.
    shutil.rmtree(os.path.join(recording, "checkpoint-0"))
    for name in os.listdir(recording):
        if name.startswith("checkpoint-") and name != "checkpoint-1":
            shutil.rmtree(os.path.join(recording, name))
    os.unlink(os.path.join(recording, "checkpoint-1", "ram"))
    if os.path.exists(packed):
        os.unlink(packed)
    if subprocess.run([f"{BIN}/reprise", "pack", recording, packed], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode == 0:
        seeds["pack", "packed"] = read(packed)
    for (target, name), data in seeds.items():
        with open(os.path.join(PLACE, "seeds", target, name), "wb") as file:
            file.write(data)


# --- running ------------------------------------------------------------------------------

def fuzz(target, runs, seconds):
    """How many inputs were tried, and what was said; a crash leaves its input in build/fuzz."""
    corpus = os.path.join(PLACE, "corpus", target)
    os.makedirs(corpus, exist_ok=True)
    done = subprocess.run([program_of(target), *OPTIONS, f"-runs={runs}",
                           f"-max_total_time={seconds}", f"-artifact_prefix={PLACE}/{target}-",
                           corpus, os.path.join(PLACE, "seeds", target)],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, encoding="utf-8", errors="replace")
    tried = re.search(r"number_of_executed_units: +(\d+)", done.stdout)
    return done.returncode, int(tried.group(1)) if tried else 0, done.stdout
