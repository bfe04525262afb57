# SPDX-License-Identifier: GPL-2.0-or-later
"""The project's files: licensed, portable, not too long; documents say what is there."""

import json
import os
import platform
import re
import shlex
import subprocess

from tests.lib.checkout import BUILD, TOP, sources
from tests.lib.process import run
from tests.lib.tap import check, main, test
from tests.lib.tool import ARCHES

CODE = (".c", ".h", ".py", ".json", ".mak", ".build")
LONGEST = 800
WIDEST = 100


# The rooms of the house, and of which others each includes headers.
CORE = {
    "base": set(),
    "recording": {"base"},
    "protocol": {"base", "recording"},
    "tool": {"base", "recording"},
}
GLUE = {
    "hw/recorder": {"base", "recording", "protocol"},
    "replay": {"base", "recording", "protocol", "hw/recorder"},
    "replay/debugger": {"base", "recording", "protocol", "hw/recorder", "replay"},
    "monitor": {"base", "recording", "protocol", "hw/recorder", "replay", "replay/debugger"},
}
ROOMS = {**CORE, **GLUE}
GENERATED = {"patch-level.h"}
# Headers that are the face of all files of their room: for those who use it, and, for QEMU, of the
# rooms above as well.
FACES = {
    "hw/recorder/recorder.h": tuple(f"{room}/" for room in GLUE),
    "protocol/sphere.h": "protocol/",
    "recording/log-reader.h": ("recording/log-reader", "recording/log-summary"),
    "recording/pack.h": ("recording/pack", "recording/unpack"),
    "tool/tool.h": "tool/",
}


def read(name):
    with open(os.path.join(TOP, name), errors="replace") as file:
        return file.read()


def is_script(name):
    return read(name).startswith("#!")


@test
def code_has_a_licence():
    for name in sources():
        if (name.endswith(CODE) and os.path.basename(name) != "meson.build") or is_script(name):
            head = "\n".join(read(name).splitlines()[:6])
            check("SPDX-License-Identifier: GPL-2.0-or-later" in head, f"{name}: no SPDX line")
    check("GNU GENERAL PUBLIC LICENSE" in read("COPYING"), "COPYING")


@test
def no_mirror_and_no_machine_is_named():
    listed = subprocess.run(["apt-get", "update", "--print-uris"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, encoding="utf-8").stdout
    hosts = set(re.findall(r"://([^/'\s]+)/", listed))
    # Spelled so that this file does not name it.
    hosts.add(".".join(("deb", "debian", "org")))
    for name in sources():
        text = read(name)
        for host in hosts:
            check(host not in text, f"{name} names the mirror {host}")
        check(os.path.dirname(TOP) == "/" or f"{TOP}/" not in text,
              f"{name} names this checkout's folder")
        check(not re.search(r"/(root|home)/\w", text), f"{name} names somebody's home")


@test
def no_file_is_too_long_to_read():
    for name in sources():
        lines = read(name).count("\n")
        check(not name.endswith(CODE) or lines <= LONGEST,
              f"{name} has {lines} lines: what is it really two of?")


def includes():
    """(file, header) of all files in rooms."""
    for name in sources():
        if os.path.dirname(name) in ROOMS and name.endswith((".c", ".h")):
            for header in re.findall(r'^\s*#\s*include "([^"]+)"', read(name), re.M):
                yield name, header


@test
def a_room_includes_only_rooms_below_it():
    seen = set()
    for name, header in includes():
        room, other = os.path.dirname(name), os.path.dirname(header)
        if other in ROOMS and os.path.exists(os.path.join(TOP, header)):
            seen.add(room)
            check(other == room or other in ROOMS[room], f"{name} includes {header}")
    check(seen == set(ROOMS), f"nothing is included in {set(ROOMS) - seen}?")


@test
def the_core_includes_nothing_of_qemu():
    for name, header in includes():
        check(os.path.dirname(name) not in CORE or header in GENERATED or
              os.path.exists(os.path.join(TOP, header)), f"{name} includes {header}")


def defined_functions():
    """{name: files}, of all rooms; those that macros of glib define are not among them."""
    found = {}
    for name in sources():
        if os.path.dirname(name) in ROOMS and name.endswith(".c"):
            for function in re.findall(r"^(?!static\b)[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*\)\n\{",
                                       read(name), re.M):
                found.setdefault(function, []).append(name)
    return found


def declared_functions(header):
    """Prototypes, not in structs."""
    text = re.sub(r"/\*.*?\*/|\\\n|^#[^\n]*", "", read(header), flags=re.S | re.M)
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", "", text)
    return re.findall(r"^(?!static\b|typedef\b)[A-Za-z_][^;()]*?\b(\w+)\([^;]*\)[^;]*;", text, re.M)


@test
def a_header_declares_functions_of_its_own_file():
    defined, seen = defined_functions(), 0
    for name in sources():
        if os.path.dirname(name) not in ROOMS or not name.endswith(".h"):
            continue
        own = FACES.get(name, name[:-2].removesuffix("-internal"))
        for function in declared_functions(name):
            for file in defined.get(function, []):
                seen += 1
                check(file.startswith(own), f"{name} declares {function}() of {file}")
    check(seen > 300, f"only {seen} functions: how are they declared now?")


def objects():
    """{name: path}, of what was compiled for the emulator of aarch64 guests."""
    return {file.removeprefix("subprojects_reprise_"): os.path.join(folder, file)
            for folder, _, files in os.walk(os.path.join(BUILD, "qemu"))
            for file in files if file.endswith(".c.o") and "x86_64" not in folder}


def symbols(path):
    """Those that it defines, and those that it wants."""
    listed = run("nm", path).stdout
    return (set(re.findall(r" [TDBRC] (\w+)$", listed, re.M)),
            set(re.findall(r" U (\w+)$", listed, re.M)))


@test
def a_room_calls_only_rooms_below_it():
    built = objects()
    compiled = {name: symbols(built[name.replace("/", "_") + ".o"]) for name in sources()
                if os.path.dirname(name) in set(ROOMS) - {"tool"} and name.endswith(".c")
                and not name.endswith("-x86.c")}
    home = {symbol: name for name, (defined, _) in compiled.items() for symbol in defined}
    check(len(home) > 500, f"only {len(home)} functions: where are the object files?")
    for name, (_, wanted) in compiled.items():
        room = os.path.dirname(name)
        for symbol in wanted & set(home):
            other = os.path.dirname(home[symbol])
            check(other == room or other in ROOMS[room], f"{name} uses {symbol} of {home[symbol]}")


@test
def headers_are_named_from_the_top():
    for name in sources():
        if name.endswith((".c", ".h")) and not name.startswith("tests/guest/"):
            for header in re.findall(r'^\s*#\s*include "([^"/]+)"', read(name), re.M):
                beside = os.path.join(os.path.dirname(name), header)
                check(not os.path.exists(os.path.join(TOP, beside)),
                      f'{name}: #include "{beside}"')


# --- documents ---------------------------------------------------------------------

OVERVIEW = "docs/design/overview.md"
GLOSSARY = "docs/glossary.md"
# A line of a call tree: depth, function, where it is, remark.
CALL = re.compile(r"^    ((?:  )*)(\w+)\(\)(?: +((?:QEMU: )?[\w./-]*/[\w./-]*\w))?(.*)$")


def documents():
    return [name for name in sources() if name.endswith(".md")]


def without_code(text):
    """Neither indented or fenced blocks, nor spans."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"(?<=\n\n)(?: {4}[^\n]*\n|\n)+", "\n", text)
    return re.sub(r"`[^`]*`", "", text)


def anchors(name):
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", read(name), flags=re.M | re.S)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ +(.*?) *$", text, re.M)}


@test
def links_of_documents_lead_somewhere():
    seen = 0
    for name in documents():
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(read(name))):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
            check(os.path.exists(os.path.join(TOP, target)), f"{name}: there is no {link}")
            check(not anchor or anchor in anchors(target), f"{name}: {target} has no #{anchor}")
            seen += 1
    check(seen > 50, f"only {seen} links: how are they written now?")


@test
def tests_that_documents_name_exist():
    seen = 0
    for name in documents():
        for path in re.findall(r"(?<![\w/])tests/[\w./-]*\w", read(name)):
            check(os.path.exists(os.path.join(TOP, path)), f"{name}: there is no {path}")
            seen += 1
    check(seen > 50, f"only {seen} paths: how are they written now?")


@test
def prose_of_documents_is_not_wide():
    for name in documents():
        if name.startswith("docs/") or name == "README.md":
            for line in read(name).splitlines():
                check(len(line) <= WIDEST or line.startswith(("|", "    ")), f"{name}: {line}")


def body_of(function, text):
    """Of a C function that is defined there; None if it is not."""
    found = re.search(rf"^(?!typedef\b)[A-Za-z_][\w *()]*?\b{function}\([^;{{}}]*\)\n\{{(.*?)^\}}",
                      text, re.M | re.S)
    return found.group(1) if found else None


def patched(file):
    """All that the patches show of a file of QEMU."""
    text = "".join(read(name) for name in sources() if name.endswith(".patch"))
    return "".join(re.findall(rf"^\+\+\+ b/{re.escape(file)}\n(.*?)(?=^diff |\Z|^From )", text,
                              re.M | re.S))


def body_of_place(function, place):
    """What @function does; of QEMU's functions, what patches show of their file."""
    if not place.startswith("QEMU: "):
        check(os.path.exists(os.path.join(TOP, place)), f"{OVERVIEW}: there is no {place}")
        return body_of(function, read(place))
    text = patched(place.removeprefix("QEMU: "))
    return text if re.search(rf"^(@@ .* @@ |[ +])[\w *]*\b{function}\(", text, re.M) else None


@test
def the_path_of_a_store_is_in_the_code():
    section = read(OVERVIEW).partition("## One store")[2].partition("\n## ")[0]
    callers, seen = [], 0
    for line in section.splitlines():
        if not line.startswith("    "):
            continue
        parsed = CALL.match(line)
        check(parsed, f"{OVERVIEW}: not a call: {line}")
        depth, function, place, remark = len(parsed[1]) // 2, *parsed.groups()[1:]
        check(depth <= len(callers), f"{OVERVIEW}: {function}() has no caller")
        callers = callers[:depth]
        place = place or callers[-1][1]
        body = body_of_place(function, place)
        check(body is not None, f"{OVERVIEW}: {function}() is not defined in {place}")
        called = re.search(r"\bas (?:\w+\.)?(\w+)", remark)
        name = called[1] if called else function
        check(not callers or re.search(rf"\b{name}\(", callers[-1][2]),
              f"{OVERVIEW}: {callers and callers[-1][0]}() does not call {name}()")
        callers.append((function, place, body))
        seen += 1
    check(seen > 60, f"only {seen} calls: how are they written now?")


@test
def functions_that_the_overview_names_exist():
    text = "".join(read(name) for name in sources()
                   if os.path.dirname(name) in ROOMS and name.endswith((".c", ".h")))
    patches = "".join(read(name) for name in sources() if name.endswith(".patch"))
    for function in set(re.findall(r"`(\w+)\(\)`", read(OVERVIEW))):
        check(body_of(function, text) is not None or
              re.search(rf"^(@@ .* @@ |[ +])[\w *]*\b{function}\(", patches, re.M),
              f"{OVERVIEW}: there is no {function}()")


@test
def identifiers_of_the_glossary_exist():
    text = "".join(read(name) for name in sources()
                   if name.endswith((".c", ".h", "test_tree.py")) and name != GLOSSARY)
    rows = re.findall(r"^\|[^|]*\|[^|]*\| (`[^|]*`[^|]*) \|$", read(GLOSSARY), re.M)
    check(len(rows) > 80, f"only {len(rows)} terms: how are they written now?")
    for identifier in {i for row in rows for i in re.findall(r"`([^`]*)`", row)}:
        if "/" in identifier:
            check(os.path.exists(os.path.join(TOP, identifier)), f"{GLOSSARY}: no {identifier}")
            continue
        for word in re.findall(r"\w+", identifier):
            check(re.search(rf"\b{word}\b", text), f"{GLOSSARY}: no {identifier}")


@test
def rules_of_the_protocol_are_in_the_design():
    names = set(re.findall(r"^ +rule\((\w+),", read("protocol/rules.h"), re.M))
    check(len(names) > 20, f"only {len(names)} rules: how are they written now?")
    for page in OVERVIEW, "docs/design/protocol.md":
        lacking = names - set(re.findall(r"`(\w+)`", read(page)))
        check(not lacking, f"{page} does not name {', '.join(sorted(lacking))}")


@test
def tests_find_each_other_as_modules():
    """Of one package, which starts at the top of the checkout."""
    for name in sources():
        if name.startswith("tests/") and name.endswith(".py"):
            # Spelled so that this file does not have it.
            check(".".join(("sys", "path")) not in read(name), f"{name} changes the search path")


@test
def code_is_not_wide():
    for name in sources():
        if name.endswith((".c", ".h", ".py")):
            for line in read(name).splitlines():
                check(len(line) <= WIDEST, f"{name}: {line}")


@test
def scripts_parse():
    for name in sources():
        if not is_script(name):
            continue
        first = read(name).splitlines()[0]
        path = os.path.join(TOP, name)
        check(os.access(path, os.X_OK), f"{name} is not executable")
        if "python" in first:
            compile(read(name), path, "exec")
        else:
            run("bash" if "bash" in first else "sh", "-n", path)


@test
def the_core_compiles_for_the_other_host():
    # glib's and lz4's headers are of this host: they are the same there.  make cross goes further.
    other, = set(ARCHES) - {platform.machine()}
    with open(os.path.join(BUILD, "core/compile_commands.json")) as file:
        commands = {entry["file"]: entry for entry in json.load(file)
                    if entry["file"].endswith(".c")}
    check(len(commands) > 50, f"there are only {len(commands)} files")
    for entry in commands.values():
        flags = [option for option in shlex.split(entry["command"])
                 if re.match("-[DIWf]|-std", option)]
        run(f"{other}-linux-gnu-gcc", *flags, "-idirafter", "/usr/include", "-fsyntax-only",
            entry["file"],
            cwd=entry["directory"])


main()
