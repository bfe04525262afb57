# SPDX-License-Identifier: GPL-2.0-or-later
"""Who accesses some bytes, told by a replay: each access, once, with the very step that makes it.

A guest whose every access is known; one that races, told of in different ways of replaying; and
Linux, where what was told must explain what is in memory at the end.
"""

import functools
import random
import re
from collections import Counter, namedtuple

from tests.guest import bare_guest
from tests.lib.guest_recording import GuestWorkspace, end, stock_command
from tests.lib.process import one_line, run
from tests.lib.qmp import Qmp
from tests.lib.tap import check, main, test, test_each
from tests.lib.time_travel import TRAVEL_S, met_an_end, travel
from tests.lib.tool import BIN, REPRISE, info, last_moment

work = GuestWorkspace()
RAM_BASE = 0x40000000
MEM_MIB = 128
VALUE = 8               # bytes, of which is told what they were

Access = namedtuple("Access", "stream position by address size pc before after")
LINE = re.compile(r"(\d+|dma):(\d+) (\S+) 0x(\w+),(\d+)(?: pc 0x(\w+))? 0x(\w+)(?: -> 0x(\w+))?")


def parse(line):
    match = LINE.fullmatch(line)
    check(match, line)
    stream, position, by, address, size, pc, before, after = match.groups()
    return Access(stream, int(position), by, int(address, 16), int(size), int(pc or "0", 16),
                  int(before, 16), None if after is None else int(after, 16))


def watch(directory, address, size, *args):
    """The accesses, in the order in which they were told of; the replay was the same as ever."""
    kind = args[:1] if args[:1] in (("reads",), ("writes",)) else ()
    output, said = work.replay(directory, "--watch", ",".join((f"{address:#x}", str(size), *kind)),
                               *args[len(kind):])
    check("replayed identically" in said, said)
    return [parse(line) for line in output.decode().splitlines()]


@functools.lru_cache
def symbols(path):
    found = re.findall(r"^(\w+) \w (\w+)$", run("aarch64-linux-gnu-nm", path).stdout, re.M)
    return {name: int(address, 16) for address, name in found}


@work.shared
def bare(cpu, smp, source):
    """A recording of a bare guest, and its symbols."""
    directory = work.place(f"{source}-{cpu}-{smp}")
    kernel = bare_guest.build(work, source=source)
    work.record(directory, *bare_guest.command(BIN, cpu, smp, kernel))
    return directory, symbols(kernel)


# --- every kind of access, once ---------------------------------------------------------

# Of bare/accesses.S: label (None: not an instruction), by, offset, size, before, after (None: a
# read).
SEVENS, FIVES, SIXES, EIGHTS = (0x0101010101010101 * n for n in (7, 5, 6, 8))

TO_TARGET = [
    ("at_store", "store", 0, 8, 0, 1),
    ("at_load", "load", 0, 8, 1, None),
    ("at_store_byte", "store", 3, 1, 0, 2),
    ("at_store_pair", "store", 0, 16, 0x2000001, 2),
    ("at_load_pair", "load", 0, 16, 2, None),
    ("at_store_q", "store", 0, 16, 2, SEVENS),
    ("at_clear", "store", 0, 8, SEVENS, 0),
    ("at_exclusive_load", "load", 0, 8, 0, None),
    ("at_exclusive_store", "atomic", 0, 8, 0, 1),
    ("at_exclusive_load_2", "load", 0, 8, 1, None),
    ("at_add", "atomic", 0, 8, 1, 3),
    ("at_swap", "atomic", 0, 8, 3, 1),
    ("at_compare", "atomic", 0, 8, 1, 2),
    ("at_compare_fails", "atomic", 0, 8, 2, None),
    ("at_load_pair_2", "load", 0, 16, 2, None),
    ("at_compare_pair", "atomic", 0, 16, 2, 9),
    ("at_zva", "dc-zva", 0, 64, 9, 0),
    (None, "dma", 0, 8, 0, None),       # of fw_cfg; what that has is not ours to know
]

VECTORS_TO_TARGET = [
    ("at_vector_store", "vector", 0, 16, None, FIVES),
    ("at_vector_load", "vector", 0, 16, FIVES, None),
    ("at_one_element", "vector", 0, 8, FIVES, FIVES),
    ("at_first_fault", "vector", 0, 16, FIVES, None),
    ("at_no_fault", "vector", 0, 16, FIVES, None),
    ("at_scatter", "vector", 0, 16, FIVES, SIXES),
    ("at_gather", "vector", 0, 16, SIXES, None),
    ("at_gather_first_fault", "load", 0, 8, SIXES, None),
    ("at_gather_first_fault", "vector", 8, 8, SIXES, None),
    ("at_matrix_load", "vector", 0, 16, SIXES, None),
    ("at_matrix_store", "vector", 0, 16, SIXES, SIXES),
]

COPIES_TO_TARGET = [                    # of so little, the first of three does all
    ("at_set", "memory-copy", 0, 16, SIXES, EIGHTS),
    ("at_copy", "memory-copy", 0, 16, EIGHTS, 0x1111111111111111),
    ("at_copy_back", "memory-copy", 0, 16, 0x1111111111111111, None),
    ("at_copy_back", "memory-copy", 4, 16, 0x2222222211111111, 0x1111111111111111),
    ("at_copy_on", "memory-copy", 4, 32, 0x1111111111111111, None),
    ("at_copy_on", "memory-copy", 12, 32, 0x22222222, 0x11111111),
]

TO_PAGE_END = [                         # from 4 bytes before it on
    ("at_across", "store", 0, 8, 0, 3),
    ("at_load_across", "load", 0, 8, 3, None),
]
VECTORS_TO_PAGE_END = [
    ("at_vector_across", "vector", 0, 4, 3, SIXES & 0xffffffff),
    ("at_vector_in_two", "vector", 0, 8, SIXES & 0xffffffff, SIXES),
    ("at_vector_split", "vector", -2, 4, 0x0606, 0x0808),
    ("at_vector_split", "vector", 6, 4, 0x0606, 0x0808),
    ("at_vector_split", "store", 2, 4, SIXES & 0xffffffff, EIGHTS & 0xffffffff),
]

KINDS = {"cortex-a76": 2, "max": 1}     # how many vCPUs: atomics of one are made otherwise


def check_accesses(seen, expected, base, labels):
    """All that was expected, in this order, and nothing else; positions apart as instructions."""
    check(len(seen) == len(expected), "\n".join(map(str, seen)))
    for access, (label, by, offset, size, before, after) in zip(seen, expected):
        check((access.by, access.address, access.size) == (by, base + offset, size),
              f"{label}: {access}")
        if label is None:
            check(access.stream == "dma" and access.pc == 0 and access.after is not None, access)
            continue
        check(access.stream == "0" and access.pc == labels[label], f"{label}: {access}")
        check(before is None or access.before == before, f"{label}: {access}")
        check(access.after == after, f"{label}: {access}")
        check(access.position - labels["position"] == (access.pc - labels["plain"]) // 4,
              f"{label}: {access}")


def recorded_accesses(cpu):
    directory, labels = bare(cpu, KINDS[cpu], "accesses.S")
    first = watch(directory, labels["target"], 8)[0]
    return directory, {**labels, "position": first.position}


@test_each(KINDS)
def each_kind_of_access_is_told_of(cpu):
    directory, labels = recorded_accesses(cpu)
    expected = TO_TARGET + (VECTORS_TO_TARGET + COPIES_TO_TARGET if cpu == "max" else [])
    check_accesses(watch(directory, labels["target"], 16), expected, labels["target"], labels)


@test
def what_lies_in_two_pages_is_told_of():
    directory, labels = recorded_accesses("max")
    place_of = labels["page_end"] - 4
    check_accesses(watch(directory, place_of, 8), TO_PAGE_END + VECTORS_TO_PAGE_END, place_of,
                   labels)


@test_each(KINDS)
def flags_that_walks_set_are_told_of(cpu):
    """With several vCPUs they are steps of their own."""
    directory, labels = recorded_accesses(cpu)
    flag, dirty = watch(directory, labels["level3"], 8)
    by = "page-walk" if KINDS[cpu] == 1 else "access-flag"
    check(flag.by == dirty.by == by and flag.size == dirty.size == 8, f"{flag} {dirty}")
    check(flag.pc == labels["at_flag"] and dirty.pc == labels["at_dirty"], f"{flag} {dirty}")
    check(flag.after == flag.before | 1 << 10, flag)
    check(dirty.before == flag.after and dirty.after == dirty.before & ~(1 << 7), dirty)
    at = labels["position"] + (flag.pc - labels["plain"]) // 4
    check([flag.position, dirty.position] == [at, at + (1 if by == "page-walk" else 2)],
          f"{flag} {dirty}")


@test_each(KINDS)
def a_store_to_the_page_that_is_executed_is_told_of(cpu):
    directory, labels = recorded_accesses(cpu)
    access, = watch(directory, labels["code_word"], 4)
    check((access.by, access.pc, access.before, access.after) == ("store", labels["at_code"], 0, 3),
          access)


def stops_at(session, command):
    """Where the accesses are that stop it, on the way to an end of the recording."""
    while not met_an_end(stop := session.gdb.go(command, TRAVEL_S)):
        yield stop.pc


@test_each(KINDS)
def watchpoints_meet_the_same_accesses(cpu):
    """Both ways, also what is not the first element of a vector; and all do what was recorded.

    DMA is not an instruction; forwards, gdb steps over exclusives and what is between them.
    """
    directory, labels = recorded_accesses(cpu)
    for at in (labels["target"], labels["target"] + 8):
        told = list({access.pc: 0 for access in watch(directory, at, 8) if access.stream != "dma"})
        with travel(work, directory) as session:
            session.gdb.command(f"awatch *(unsigned long *){at:#x}")
            met = [pc - 4 for pc in stops_at(session, "continue")]
            wanted, seen = info(directory)["end_digest"], session.digests()
            check((seen["ram"], seen["vcpus"]) == (wanted["ram"], wanted["registers"]), seen)
            skipped = range(labels["at_exclusive_load"], labels["at_no_store"])
            check([pc for pc in met if pc not in skipped] ==
                  [pc for pc in told if pc not in skipped], f"{met}\n{told}")
            met = list(stops_at(session, "reverse-continue"))
            check(met == told[::-1], f"{met}\n{told}")


@test_each(["reads", "writes"])
def only_what_was_asked_for_is_told_of(kind):
    for cpu in KINDS:
        directory, labels = recorded_accesses(cpu)
        some = watch(directory, labels["target"], 16, kind)
        wanted = [access for access in watch(directory, labels["target"], 16)
                  if access.by == "atomic" or (access.after is None) == (kind == "reads")]
        if kind == "writes":
            wanted = [access for access in wanted if access.after is not None]
            check(some == wanted, f"{some}\n{wanted}")
        else:
            check([access.position for access in some] ==
                  [access.position for access in wanted], f"{some}\n{wanted}")


@test
def one_byte_is_told_of_alone():
    directory, labels = recorded_accesses("cortex-a76")
    byte = labels["target"] + 3
    wanted = [access for access in watch(directory, labels["target"], 16)
              if access.address <= byte < access.address + access.size]
    seen = watch(directory, byte, 1)
    check([access[:6] for access in seen] == [access[:6] for access in wanted],
          f"{seen}\n{wanted}")


# --- a race ------------------------------------------------------------------------------

WAYS = [["--threads", "single"],
        ["--", "-accel", "tcg,thread=multi,one-insn-per-tb=on,x-tlb-bits=5"]]


def explain(accesses, start):
    """The bytes from @start on, as each access left them; none saw anything else."""
    value = {}
    last = Counter()
    for access in accesses:
        if access.position < last[access.stream]:       # there may be millions: no text for each
            check(False, f"out of order: {access}")
        last[access.stream] = access.position
        first = max(access.address, start)
        n = access.address + access.size - first
        for i in range(min(n, VALUE)):
            before, after = (None if number is None else number >> 8 * i & 255
                             for number in (access.before, access.after))
            if value.get(first + i, before) != before and first + i <= start + VALUE:
                check(False, f"{access}: byte {i} was {value.get(first + i)}")
            value[first + i] = before if after is None else after
    return value


@test_each(["cortex-a76 2 lock 4", "max 1 digest 8"],
           long=["cortex-a76 2 raced 8", "cortex-a76 2 level3 16"])
def it_makes_no_difference_how_it_is_replayed(what):
    """A lock word, data that is raced for, tables that walks write to, what interrupts change."""
    cpu, smp, name, size = what.split()
    directory, labels = bare(cpu, int(smp), "bare.c")
    # Who waits for a lock loads it again and again, on a busy host millions of times.
    kind = ["writes"] if name == "lock" else []
    seen = watch(directory, labels[name], int(size), *kind)
    check(len(seen) > 100, f"{len(seen)} accesses")
    explain(seen, labels[name])
    for way in WAYS:
        other = watch(directory, labels[name], int(size), *kind, *way)
        explain(other, labels[name])
        check(Counter(other) == Counter(seen), f"{way}: {len(other)} accesses, not {len(seen)}")


@test
def a_lock_is_taken_as_often_as_the_guest_says():
    directory, labels = bare("cortex-a76", 2, "bare.c")
    rounds = 16000
    writes = watch(directory, labels["locked_rounds"], 8, "writes")
    check([access.after for access in writes] == list(range(1, rounds + 1)), len(writes))
    check({access.stream for access in writes} == {"0", "1"}, "one of them has done it all")
    taken = [access for access in watch(directory, labels["lock"], 4, "writes") if access.after]
    check(len(taken) == rounds and all(access.by == "atomic" for access in taken),
          f"{len(taken)} times")


@test_each(["stack", "level2"], long=["second_stack", "level1", "vectors"])
def whole_pages_can_be_watched(name):
    """Of the stack, tables and code: the replay is as ever."""
    directory, labels = bare("cortex-a76", 2, "bare.c")
    page = labels[name] & ~4095
    if name == "stack":
        page += 15 * 4096               # where it begins
    seen = watch(directory, page, 4096)
    check(seen or name in ("level1", "vectors"), "no access at all")


# --- Linux ---------------------------------------------------------------------------------

@work.shared
def linux():
    directory = work.place("linux")
    work.record(directory, "--checkpoint-interval", "1", "--", *stock_command(
        "forkstorm -t 2 -n 5; racey -t 2 -n 50000", smp=2, boot=("--mem", str(MEM_MIB))))
    return directory


def memory(directory, *args):
    """At the end of its replay, or of a part of it."""
    socket = work.path("qmp")
    process = work.start("replay", directory, "--qmp", socket, "--pause-at-end", *args)
    qmp = Qmp(socket, process)
    check(qmp.replayed()["identical"], "it diverged")
    path = work.path("memory")
    qmp("pmemsave", val=RAM_BASE, size=MEM_MIB << 20, filename=path)
    qmp("quit")
    end(process)
    qmp.close()
    with open(path, "rb") as file:
        return file.read()


def words_that_change(old, new):
    """Addresses, one of each page, in a random order."""
    pages = [page for page in range(0, len(old), 4096)
             if old[page:page + 4096] != new[page:page + 4096]]
    chosen = random.Random(1)
    for page in chosen.sample(pages, len(pages)):
        yield chosen.choice([at for at in range(page, page + 4096, 8)
                             if old[at:at + 8] != new[at:at + 8]])


def check_part(directory, word, accesses):
    """From a checkpoint on, the same is told, but for what was before it."""
    begin = info(directory)["checkpoint_points"][1]
    point = dict(part.split(":") for part in begin.split(","))
    wanted = [access for access in accesses if access.position >= int(point[access.stream])]
    part = watch(directory, word, 8, "writes", "--from", "1")
    check(Counter(part) == Counter(wanted), f"{part}\n{wanted}")


@test
def writes_explain_what_is_in_memory_at_the_end():
    """Of five words, or more, until there is one that the other vCPU writes to."""
    directory = linux()
    last = last_moment(directory)
    at_the_end = memory(directory)
    words = words_that_change(memory(directory, "--until", str(last * 3 // 4)), at_the_end)
    streams = set()
    for n, word in enumerate(words):
        if n >= 50 or n >= 5 and len(streams) > 1:
            break
        writes = watch(directory, RAM_BASE + word, 8, "writes")
        check_part(directory, RAM_BASE + word, writes)
        streams |= {access.stream for access in writes}
        value = explain(writes, RAM_BASE + word)
        for address, byte in value.items():
            if address < RAM_BASE + word + 8:
                check(byte == at_the_end[address - RAM_BASE],
                      f"{address:#x} is {at_the_end[address - RAM_BASE]:#x}, not {byte:#x}")
        check(value, f"nobody writes to {RAM_BASE + word:#x}")
    check(len(streams) > 1, "all by one vCPU")


# --- refusals --------------------------------------------------------------------------------

@test_each(["", "x", "0x40000000,", "0x40000000,0", "0x40000000,8,both", "1,2,reads,4", "-1"])
def a_watch_that_makes_no_sense_is_a_usage_error(text):
    done = run(REPRISE, "replay", "x", "--watch", text, status=2, cwd=work.directory)
    check(done.stdout == "" and "--watch" in one_line(done.stderr), done.stderr)


@test_each(["0x3ffffff8,16 memory is at", "0x9000000 memory is at", "0xfffffffffffffffc,8 memory",
            "0x40000000,4097 1 to 4096 can"])
def what_cannot_be_watched_is_refused(what):
    text, words = what.split(maxsplit=1)
    output, line = work.replay(work.hello()[0], "--watch", text, status=2)
    check(output == b"" and words in line, line)


@test
def a_file_gets_the_lines_and_must_be_new():
    directory, labels = recorded_accesses("cortex-a76")
    path, socket = work.path("lines"), work.path("qmp")
    address = labels["target"]
    process = work.start("replay", directory, "--qmp", socket, "--pause-at-end", "--until", "1")
    qmp = Qmp(socket, process)
    qmp.replayed()
    wanted = {"address": address, "file": path}
    check(qmp("recorder-replay", directory=directory, watch=wanted) == {"return": {}}, "refused")
    check(qmp.replayed()["identical"], "it diverged")
    with open(path, encoding="utf-8") as file:
        lines = [parse(line.strip()) for line in file]
    check(lines == watch_again(directory, address), lines)
    again = qmp("recorder-replay", directory=directory, watch=wanted)
    check(path in again["error"]["desc"], again)
    neither = qmp("recorder-replay", directory=directory,
                  watch={"address": address, "reads": False, "writes": False})
    check("neither" in neither["error"]["desc"], neither)
    qmp("quit")
    end(process)
    qmp.close()


def watch_again(directory, address):
    done = run(REPRISE, "replay", directory, "--watch", f"{address:#x}")
    return [parse(line) for line in done.stdout.splitlines()]


main(work)
