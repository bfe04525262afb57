# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest of a real libvirtd, recorded by `virsh qemu-monitor-command` and by `reprise --domain`.

The daemons are our own, in name spaces of their own (scripts/libvirt): started for these
tests and ended after them.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

from tests.lib.checkout import TOP
from tests.lib.guest_recording import GuestWorkspace, of_usual_guest
from tests.lib.process import one_line, run
from tests.lib.tap import check, main, need_root, skip, test
from tests.lib.tool import ARCHES, BIN, REPRISE, info, need

work = GuestWorkspace()
SCRIPT = os.path.join(TOP, "scripts/libvirt")
PATIENCE_S = 60
BUSY = "while :; do date; done"
NAME = "reprise-test"
NOT_HERE = 77           # of the script: the machine does not allow it


class Libvirt:
    """The daemons, from their first use to the end of this program."""
    directory = None
    process = None
    refusal = None

    @classmethod
    def start(cls):
        if cls.refusal:
            skip(cls.refusal)
        if cls.process:
            return
        need("aarch64")
        need_root()
        fetched = subprocess.run([SCRIPT, "fetch"], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT,
                                 encoding="utf-8")
        if fetched.returncode != 0:
            cls.refusal = f"libvirt cannot be fetched: {fetched.stdout.strip()}"
            skip(cls.refusal)
        cls.directory = tempfile.mkdtemp(prefix="reprise-libvirt-")
        cls.process = subprocess.Popen([SCRIPT, "run", cls.directory], stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run([SCRIPT, "virsh", cls.directory, "uri"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL).returncode != 0:
            if cls.process.poll() == NOT_HERE:
                cls.refusal = ("this machine does not let libvirt have name spaces and mounts of "
                               "its own")
                skip(cls.refusal)
            check(cls.process.poll() is None and time.monotonic() < deadline,
                  f"libvirtd does not start; see {cls.directory}/log/libvirtd.out")
            time.sleep(0.1)

    @classmethod
    def stop(cls):
        if cls.process:
            cls.process.terminate()
            cls.process.wait()
            shutil.rmtree(cls.directory)


def virsh(*args, status=0):
    return run(SCRIPT, "virsh", Libvirt.directory, *args, status=status).stdout


def uri():
    return f"qemu:///system?socket={Libvirt.directory}/run/libvirt-sock"


def tool(command, *args, status=0):
    return run(REPRISE, command, "--domain", NAME, "--connect", uri(), *args, status=status)


def execute(command, **arguments):
    """A QMP command, by virsh."""
    text = json.dumps({"execute": command, "arguments": arguments})
    return json.loads(virsh("qemu-monitor-command", NAME, text))


class Domain:
    """Defined and started; destroyed and forgotten at the end."""

    def __init__(self, *args):
        Libvirt.start()
        self.console = work.path("domain.console")
        text = run(REPRISE, *of_usual_guest(["xml", "--name", NAME, "--mem", "128", "--run", BUSY,
                                             "--console", self.console, *args])).stdout
        self.path = work.path("domain.xml")
        with open(self.path, "w") as file:
            file.write(text)

    def __enter__(self):
        with open(self.console, "wb"):
            pass
        virsh("define", self.path)
        virsh("start", NAME)
        deadline = time.monotonic() + PATIENCE_S
        while b"reprise: begin" not in open(self.console, "rb").read():
            check(time.monotonic() < deadline, "the guest does not boot")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        virsh("destroy", NAME)
        check("shut off" in virsh("domstate", NAME), virsh("domstate", NAME))
        virsh("undefine", NAME)

    def lines(self):
        with open(self.console, "rb") as file:
            return file.read().count(b"\n")


def wait_for_lines(domain, more):
    """The guest goes on, and writes."""
    want, deadline = domain.lines() + more, time.monotonic() + PATIENCE_S
    while domain.lines() < want:
        check(time.monotonic() < deadline, "the guest stands still")
        time.sleep(0.05)


def check_recording(directory, vcpus):
    said = info(directory)
    check(said["complete"] and said["vcpus"] == vcpus and said["start"] == "running", said)
    shown, line = work.replay(directory)
    check("replayed identically" in line and b"20" in shown, f"{line} {shown}")


# --- the whole cycle ------------------------------------------------------------------------

@test
def the_whole_cycle_by_virsh():
    directory = work.place("by-virsh")
    with Domain("--smp", "2") as domain:
        check(execute("query-recorder")["return"]["state"] == "off", "it is recorded already")
        answer = execute("recorder-start", directory=directory)
        check("error" not in answer, answer)
        check("already" in execute("recorder-start", directory=directory)["error"]["desc"], "twice")
        wait_for_lines(domain, 20)
        shown = execute("query-recorder")["return"]
        check(shown["state"] == "recording" and shown["directory"] == directory, shown)
        check("error" not in execute("recorder-stop"), "stop")
        text = virsh("qemu-monitor-command", "--hmp", NAME, "info recorder")
        check(f"the last recording, {directory}, is complete: stopped" in text, text)
        wait_for_lines(domain, 5)
        check("running" in virsh("domstate", NAME), virsh("domstate", NAME))
    check_recording(directory, 2)


@test
def the_whole_cycle_by_the_tool():
    directory = work.place("by-tool")
    with Domain("--smp", "2") as domain:
        check(tool("status").stdout == "off\n", tool("status").stdout)
        check("recording in" in one_line(tool("start", "-o", directory).stderr), "start")
        wait_for_lines(domain, 20)
        check(tool("status").stdout.startswith(f"recording {directory} for "),
              tool("status").stdout)
        check(json.loads(tool("status", "--json").stdout)["state"] == "recording", "status --json")
        check("already" in one_line(tool("start", "-o", work.place("x"), status=2).stderr), "twice")
        check(one_line(tool("stop").stderr) == f"reprise: recorded {directory}", "stop")
        check("nothing is being recorded" in one_line(tool("stop", status=2).stderr),
              "stopped twice")
        wait_for_lines(domain, 5)
    check_recording(directory, 2)
    line = one_line(tool("status", status=2).stderr)
    check(NAME in line, line)


@test
def a_domain_that_is_destroyed_ends_its_recording():
    directory = work.place("destroyed")
    with Domain() as domain:
        tool("start", "-o", directory)
        wait_for_lines(domain, 10)
    check(info(directory)["replayable"], "not by this build")
    work.replay(directory)


@test
def a_domain_that_does_not_run_is_named():
    domain = Domain()
    virsh("define", domain.path)
    try:
        line = one_line(tool("status", status=2).stderr)
        check(f"'{NAME}' does not run" in line, line)
    finally:
        virsh("undefine", NAME)
    check("cannot connect to libvirt: " in one_line(
        run(REPRISE, "status", "--domain", NAME, "--connect", "qemu:///system?socket=/nowhere",
            status=2).stderr), "no socket")


@test
def a_definition_as_it_comes_is_accepted():
    Libvirt.start()
    path = work.path("plain.xml")
    with open(path, "w") as file:
        file.write(run(REPRISE, "xml").stdout)
    virsh("define", "--validate", path)
    try:
        check("<serial type='pty'>" in virsh("dumpxml", "reprise"), virsh("dumpxml", "reprise"))
    finally:
        virsh("undefine", "reprise")


@test
def more_than_eight_vcpus_can_be_recorded():
    directory = work.place("nine")
    with Domain("--smp", "9") as domain:
        tool("start", "-o", directory)
        wait_for_lines(domain, 3)
        tool("stop")
    check_recording(directory, 9)


@test
def a_pc_is_recorded_too():
    need("x86_64")
    directory = work.place("pc")
    with Domain("--arch", "x86_64", "--smp", "2") as domain:
        tool("start", "-o", directory)
        wait_for_lines(domain, 20)
        tool("stop")
    check_recording(directory, 2)


# --- the definition ---------------------------------------------------------------------------

def definition(*args):
    return ElementTree.fromstring(run(REPRISE, *of_usual_guest(["xml", *args])).stdout)


@test
def the_definition_has_what_was_asked_for():
    need("aarch64")
    domain = definition("--name", "a<b", "--smp", "3", "--mem", "64", "--run", "echo '<&>'")
    check(domain.findtext("name") == "a<b" and domain.findtext("vcpu") == "3", "name, vcpu")
    check(domain.findtext("memory") == "64" and domain.find("memory").get("unit") == "MiB",
          "memory")
    check(domain.findtext("devices/emulator") == os.path.join(BIN, "qemu-system-aarch64"),
          "emulator")
    check(os.path.exists(domain.findtext("os/kernel")), "kernel")
    check(os.path.exists(domain.findtext("os/initrd")), "initrd")
    check(definition("--image", "stock").findtext("os/kernel") == domain.findtext("os/kernel"),
          "image")
    check("echo '<&>'" in domain.findtext("os/cmdline"), domain.findtext("os/cmdline"))
    check(domain.find("devices/serial").get("type") == "pty", "serial")
    other = definition("--kernel", "Image", "--append", "quiet", "--console", "out")
    check(other.findtext("os/kernel") == os.path.abspath("Image"), "another kernel")
    check(other.find("os/initrd") is None and other.findtext("os/cmdline") == "quiet", "initrd")
    check(other.find("devices/serial/source").get("path") == os.path.abspath("out"), "console")


@test
def a_guest_is_of_the_hosts_architecture_unless_another_is_asked_for():
    own = os.uname().machine
    need(own)
    domain = ElementTree.fromstring(run(REPRISE, "xml").stdout)
    check(domain.find("os/type").get("arch") == own, domain.find("os/type").attrib)
    for arch in ARCHES:
        need(arch)
        check(definition("--arch", arch).find("os/type").get("arch") == arch, arch)


@test
def a_definition_that_cannot_be_is_refused():
    for args, word in ((["--arch", "sparc"], "aarch64 or x86_64"), (["--initrd", "x"], "--kernel"),
                       (["--kernel", "x", "--run", "y"], "--run"), (["--smp", "-1"], "--smp"),
                       (["--kernel", "x", "--image", "y"], "--image"),
                       (["--image", "nothing"], "no image"),
                       (["--name", "a/b"], "--name"), (["x"], "'x'")):
        done = run(REPRISE, "xml", *args, status=2)
        check(done.stdout == "" and word in one_line(done.stderr), done.stderr)


try:
    main(work)
finally:
    Libvirt.stop()
