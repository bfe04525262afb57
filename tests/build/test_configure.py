# SPDX-License-Identifier: GPL-2.0-or-later
"""./configure: what it refuses, in one line, leaving nothing to trip over.

That it works is shown by this very build.  Each refusal is provoked for real in
a copy of the checkout: a mirror that cannot be reached, another user, another
/etc/os-release, a full disk, sources of another version.
"""

import os
import re
import subprocess
import tempfile

from tests.lib.checkout import TOP, copy_of_checkout
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, need_root, skip, test

UNREACHABLE = "http://127.0.0.1:1"


class Checkout:
    """A copy of the project, removed at the end; everybody may write to it."""

    def __enter__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="reprise-configure-")
        os.chmod(self.holder.name, 0o755)
        self.dir = copy_of_checkout(os.path.join(self.holder.name, "reprise"))
        return self

    def __exit__(self, *_):
        self.holder.cleanup()

    def refused(self, *args, status=1, prefix=(), env=None):
        """Run configure, which must refuse; return its one line."""
        done = run(*prefix, "./configure", *args, status=status, cwd=self.dir,
                   env={**os.environ, **(env or {})})
        return one_line(done.stderr)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.holder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


def private_mounts(script):
    """Run configure where mounts are its own: `script` sets the scene."""
    need_root()
    probe = subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL)
    if probe.returncode:
        skip("needs unshare -m")
    return ("unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh")


@test
def help_names_every_option():
    text = run(os.path.join(TOP, "configure"), "--help").stdout
    for word in ("--qemu-source=DIR|TARBALL", "--targets=", "--no-install", "--help"):
        check(word in text, f"{word} is not in:\n{text}")


@test
def usage_errors_have_status_2():
    with Checkout() as checkout:
        check("'--frob'" in checkout.refused("--frob", status=2), "names the option")
        check("'riscv'" in checkout.refused("--targets=aarch64,riscv", status=2),
              "names the target")
        check("/nowhere" in checkout.refused("--qemu-source=/nowhere", status=2),
              "names the source")
        check(not os.path.exists(checkout.path("build")), "build/ was made")


@test
def a_second_run_does_nothing():
    def stamps():
        return {name: os.stat(os.path.join(TOP, "build", name)).st_mtime_ns
                for name in ("src/qemu/meson.build", "src/qemu/subprojects", "qemu/build.ninja",
                             "core/build.ninja", "config.mk", "share/qemu", "bin")}

    config = open(os.path.join(TOP, "build/config.mk")).read()
    targets = config.split("TARGETS := ")[1].splitlines()[0]
    options = [f"--targets={targets.replace(' ', ',')}"]
    origin = open(os.path.join(TOP, "build/src/origin")).read().strip()
    if origin != "debian":
        options.append(f"--qemu-source={origin}")
    before = stamps()
    # No network is needed either.
    run("./configure", *options, cwd=TOP, timeout=120,
        env={**os.environ, "http_proxy": UNREACHABLE, "https_proxy": UNREACHABLE})
    check(stamps() == before, "something was done again")


@test
def no_network():
    with Checkout() as checkout:
        for _ in range(2):      # the second run must say the same
            line = checkout.refused(env={"http_proxy": UNREACHABLE, "https_proxy": UNREACHABLE})
            for word in ("cannot reach", "127.0.0.1", "--qemu-source=TARBALL"):
                check(word in line, line)
            check(not os.path.exists(checkout.path("build/src/qemu")), "half a source is there")


@test
def not_root_and_a_package_missing():
    need_root()
    with Checkout() as checkout:
        # A dpkg that has installed nothing.
        checkout.write("bin/dpkg-query", "#!/bin/sh\nexit 1\n", 0o755)
        path = {"PATH": f"{checkout.holder.name}/bin:{os.environ['PATH']}"}
        run("chown", "-R", "nobody", checkout.dir)
        line = checkout.refused(prefix=("setpriv", "--reuid=nobody", "--clear-groups"), env=path)
        check("needs root" in line and "apt-get install" in line and "libglib2.0-dev" in line, line)
        line = checkout.refused("--no-install", env=path)
        check("--no-install" in line and "libglib2.0-dev" in line, line)


@test
def an_unknown_distribution():
    with Checkout() as checkout:
        release = checkout.write("os-release", 'ID=plan9\nPRETTY_NAME="Plan 9"\n')
        line = checkout.refused(prefix=private_mounts(f"mount --bind {release} /etc/os-release"))
        check("Plan 9" in line and "--qemu-source" in line, line)


@test
def too_little_disk():
    with Checkout() as checkout:
        os.mkdir(checkout.path("build"))
        line = checkout.refused(prefix=private_mounts(
            f"mount -t tmpfs -o size=64m tmpfs {checkout.path('build')}"))
        check("disk" in line and "64 MiB" in line, line)


@test
def a_folder_that_cannot_be_written():
    need_root()
    with Checkout() as checkout:
        line = checkout.refused(prefix=("setpriv", "--reuid=nobody", "--clear-groups"))
        check("cannot write" in line, line)


@test
def a_source_of_another_version():
    with Checkout() as checkout:
        for version in ("9.2.0", "10.1.0", "100.0.1", ""):
            checkout.write("qemu/VERSION", version + "\n")
            line = checkout.refused(f"--qemu-source={checkout.holder.name}/qemu")
            check("10.0.x" in line and version in line, line)
            check(not os.path.exists(checkout.path("build/src/qemu")), "the source was taken")


@test
def a_source_that_is_no_source():
    with Checkout() as checkout:
        path = checkout.write("qemu.tar.xz", "not a tarball")
        check("cannot unpack" in checkout.refused(f"--qemu-source={path}"), "says what is wrong")


@test
def a_patch_that_does_not_apply():
    with Checkout() as checkout:
        # A source with everything that the first patch wants, but otherwise.
        checkout.write("qemu/VERSION", "10.0.99\n")
        first = open(os.path.join(TOP, "qemu-patches/series")).readline().strip()
        with open(os.path.join(TOP, "qemu-patches", first)) as patch:
            file = re.search(r"^--- a/(.*)", patch.read(), re.M)[1]
        checkout.write(f"qemu/{file}", "# nothing of what is expected\n")
        for _ in range(2):
            line = checkout.refused(f"--qemu-source={checkout.holder.name}/qemu")
            check(first in line and file in line and "10.0.99" in line, line)
        tree = checkout.path("build/src/qemu")
        check(run("git", "-C", tree, "status", "--porcelain").stdout == "", "the tree is not clean")


@test
def make_before_configure():
    with Checkout() as checkout:
        done = run("make", status=2, cwd=checkout.dir)
        check("run ./configure first" in done.stderr, done.stderr)


main()
