# SPDX-License-Identifier: GPL-2.0-or-later
"""The image builder: reproducible, extensible, clear when it refuses.

Packages are in the private apt's cache once the stock image is built, so most of
this needs no network.
"""

import json
import os
import tempfile

from tests.lib.checkout import TOP
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, test, test_each
from tests.lib.tool import built_arches

BUILD_IMAGE = f"{TOP}/images/build"
BOOT = f"{TOP}/images/boot"
STOCK = f"{TOP}/build/images/stock"
UNREACHABLE = {**os.environ, "http_proxy": "http://127.0.0.1:1",
               "https_proxy": "http://127.0.0.1:1"}


def contents(path):
    with open(path, "rb") as file:
        return file.read()


@test
def help_names_every_option():
    text = run(BUILD_IMAGE, "--help").stdout
    for word in ("--arch", "--add", "--package", "--name", "--help"):
        check(word in text, f"{word} is not in:\n{text}")
    text = run(BOOT, "--help").stdout
    for word in ("--arch", "--smp", "--mem", "--image", "--run", "--timeout"):
        check(word in text, f"{word} is not in:\n{text}")


@test_each(built_arches())
def a_second_build_does_nothing_and_needs_no_network(arch):
    before = os.stat(f"{STOCK}/{arch}/initrd").st_mtime_ns
    run(BUILD_IMAGE, "--arch", arch, timeout=120, env=UNREACHABLE)
    check(os.stat(f"{STOCK}/{arch}/initrd").st_mtime_ns == before, "it was built again")


@test_each(built_arches()[:1], long=built_arches()[1:])
def two_builds_are_the_same_bytes(arch):
    with tempfile.TemporaryDirectory(prefix="reprise-image-") as scratch:
        run(BUILD_IMAGE, "--arch", arch, "-o", scratch)
        again = os.path.join(scratch, "stock", arch)
        for name in ("kernel", "initrd", "image.json"):
            check(contents(f"{again}/{name}") == contents(f"{STOCK}/{arch}/{name}"),
                  f"{name} differs")


@test_each(built_arches())
def the_image_describes_itself(arch):
    with open(f"{STOCK}/{arch}/image.json") as file:
        image = json.load(file)
    check(image["arch"] == arch, image)
    check(any("linux-image" in p for p in image["packages"]), image)


@test_each(built_arches()[-1:], long=built_arches()[:-1])
def a_folder_can_be_added(arch):
    with tempfile.TemporaryDirectory(prefix="reprise-image-") as scratch:
        os.makedirs(f"{scratch}/add/usr/local/bin")
        with open(f"{scratch}/add/usr/local/bin/greet", "w") as file:
            file.write("#!/bin/sh\necho hello from the added folder\nexit 3\n")
        os.chmod(f"{scratch}/add/usr/local/bin/greet", 0o755)
        run(BUILD_IMAGE, "--arch", arch, "--add", f"{scratch}/add", "-o", scratch, "--name",
            "greeting")
        console = run(BOOT, "--arch", arch, "--image", f"{scratch}/greeting", "--timeout", "60",
                      "--run", "greet", status=3).stdout
        check("hello from the added folder" in console, console)


@test
def usage_errors_have_status_2():
    for tool, args, word in ((BUILD_IMAGE, ["--arch", "vax"], "vax"),
                             (BUILD_IMAGE, ["--frob"], "--frob"),
                             (BOOT, ["--arch", "vax"], "vax"),
                             (BOOT, ["--smp", "0"], "--smp"),
                             (BOOT, ["--frob"], "--frob")):
        line = one_line(run(tool, *args, status=2).stderr)
        check(word in line, line)


@test
def what_is_missing_is_named():
    arch = built_arches()[0]
    for tool, args, word in ((BUILD_IMAGE, ["--arch", arch, "--add", "/nowhere"], "/nowhere"),
                             (BUILD_IMAGE, ["--arch", arch, "--package", "no-such-package"],
                              "no-such-package"),
                             (BOOT, ["--arch", arch, "--image", "nosuch", "--run", "true"],
                              "nosuch"),
                             (BOOT, ["--arch", arch, "--qemu-dir", "/nowhere", "--run", "true"],
                              "/nowhere")):
        done = run("sh", "-c", '"$@"; [ $? -ne 0 ]', "sh", tool, *args)
        check(word in one_line(done.stderr), done.stderr)


@test
def a_guest_that_hangs_is_stopped():
    arch = built_arches()[0]
    done = run(BOOT, "--arch", arch, "--timeout", "8", "--run", "echo before; sleep 1000",
               status=124)
    check("before" in done.stdout, done.stdout)
    check("stopped after 8 s: its last line was: before" in done.stderr.splitlines()[-1],
          done.stderr)


@test
def a_guest_that_panics_ends():
    arch = built_arches()[0]
    done = run(BOOT, "--arch", arch, "--timeout", "60",
               "--run", "echo c > /proc/sysrq-trigger", status=125)
    check("images/boot: the guest ended" in done.stderr, done.stderr)


main()
