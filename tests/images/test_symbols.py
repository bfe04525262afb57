# SPDX-License-Identifier: GPL-2.0-or-later
"""images/symbols: what it shows, what it refuses, that it gives up in time.

That its symbols are right is tested with a guest: tests/debugger/test_gdb.py.
"""

import json
import os
import shutil
import socket
import tempfile
import time

from tests.lib.checkout import BUILD, TOP
from tests.lib.process import one_line, run
from tests.lib.tap import after_test, check, main, skip, test

SYMBOLS = f"{TOP}/images/symbols"
WITHIN_S = 2
PACKAGE = "linux-image-1.2-cloud-arm64"


def mirror(port):
    """An environment where Debian's archive is there."""
    proxy = f"http://127.0.0.1:{port}"
    return {"http_proxy": proxy, "https_proxy": proxy}


def symbols():
    """Those of this build."""
    done = run(SYMBOLS, "--show", status=(0, 1))
    if done.returncode != 0:
        skip(one_line(done.stderr))
    return done.stdout.strip()


class Place:
    """A build folder with an image, as far as images/symbols looks at it."""

    def __init__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="reprise-symbols-")
        after_test(self.holder.cleanup)
        self.write("images/stock/aarch64/image.json", {"debs": [f"{PACKAGE}_1.2-3_arm64.deb"]})

    def path(self, name):
        return os.path.join(self.holder.name, name)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            json.dump(content, file)

    def run(self, *args, status=0, env=()):
        return run(SYMBOLS, *args, status=status,
                   env={**os.environ, "REPRISE_BUILD": self.holder.name, **dict(env)})

    def nothing_is_left(self):
        check(os.listdir(self.path("symbols")) == [".lock"], os.listdir(self.path("symbols")))


@test
def help_and_usage():
    text = run(SYMBOLS, "--help").stdout
    for word in ("--arch", "--within", "--show", "--help"):
        check(word in text, f"{word} is not in:\n{text}")
    for args, word in ((["--arch", "vax"], "vax"), (["--within", "0"], "--within"),
                       (["--within", "soon"], "soon"), (["--frob"], "--frob")):
        check(word in one_line(run(SYMBOLS, *args, status=2).stderr), args)


@test
def a_second_run_does_nothing_and_needs_no_network():
    vmlinux = symbols()
    before = os.stat(vmlinux).st_mtime_ns
    done = run(SYMBOLS, timeout=60, env={**os.environ, **mirror(1)})
    check("up to date" in done.stdout, done.stdout)
    check(os.stat(vmlinux).st_mtime_ns == before, "it was built again")


@test
def the_symbols_have_an_index():
    check(".gdb_index" in run("readelf", "-SW", symbols()).stdout, "gdb would need half a minute")


@test
def only_symbols_of_the_images_kernel_are_shown():
    place = Place()
    check("make symbols" in one_line(place.run("--show", status=1).stderr), "there are none")
    place.write("symbols/aarch64/symbols.json", {"package": f"{PACKAGE}-dbg", "version": "1.2-2"})
    place.write("symbols/aarch64/vmlinux", "")
    check("make symbols" in one_line(place.run("--show", status=1).stderr), "of another version")
    place.write("symbols/aarch64/symbols.json", {"package": f"{PACKAGE}-dbg", "version": "1.2-3"})
    check(place.run("--show").stdout == f"{place.path('symbols/aarch64/vmlinux')}\n", "the same")
    os.unlink(place.path("images/stock/aarch64/image.json"))
    check("make images" in one_line(place.run("--show", status=1).stderr), "no image")


@test
def no_network():
    place = Place()
    line = one_line(place.run(status=1, env=mirror(1)).stderr)
    check("cannot reach" in line and "127.0.0.1" in line, line)
    place.nothing_is_left()


@test
def a_mirror_that_does_not_answer_is_given_up():
    place = Place()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        done = place.run("--within", str(WITHIN_S), status=1, env=mirror(silent.getsockname()[1]))
    line = one_line(done.stderr)
    check(f"{PACKAGE}-dbg=1.2-3 was not fetched within {WITHIN_S} s" in line, line)
    check(time.monotonic() - started < WITHIN_S + 10, "late")
    place.nothing_is_left()


@test
def what_is_missing_is_named():
    place = Place()
    line = one_line(place.run(status=1, env={"PATH": place.path("images")}).stderr)
    check("install the package gdb-multiarch" in line, line)
    place.nothing_is_left()


@test
def a_version_that_debian_has_replaced_is_named():
    """By the package lists that the image was built with, unless they are of yesterday."""
    place, lists = Place(), f"{BUILD}/apt/bookworm"
    if not os.path.exists(f"{lists}/updated"):
        skip("this build has fetched no lists of Debian's packages")
    os.makedirs(place.path("apt/bookworm"))
    os.symlink(f"{lists}/lists", place.path("apt/bookworm/lists"))
    for name in ("updated", "sources.list"):
        shutil.copy2(f"{lists}/{name}", place.path(f"apt/bookworm/{name}"))
    line = one_line(place.run(status=1).stderr)
    if "cannot reach" in line:
        skip("no network")
    check(f"no {PACKAGE}-dbg=1.2-3 any more: run images/build --refresh" in line, line)
    place.nothing_is_left()


main()
