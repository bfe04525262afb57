# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise record` and `reprise replay` of real guests, in a workspace.

    workspace = GuestWorkspace()

    @test
    def it_replays():
        directory = workspace.place("it")
        shown, _ = workspace.record(directory, "--run", "echo it")
        check(workspace.replay(directory)[0] == shown, "the console differs")

    main(workspace)
"""

import functools
import shlex
import shutil
import subprocess

from tests.lib.checkout import TOP
from tests.lib.process import one_line, run
from tests.lib.tap import after_test, check
from tests.lib.tool import REPRISE, info, kill_emulator, need, stop_tool
from tests.lib.workspace import PATIENCE_S, Workspace, replay_command

QUIT_S = 10
USUAL_ARCH = "aarch64"          # of the guests of tests that need no other


@functools.lru_cache
def stock_command(command, smp=1, boot=(), arch=USUAL_ARCH):
    """Return QEMU's command line for the stock guest, as a list; `boot`: options of images/boot."""
    need(arch)
    return shlex.split(run(f"{TOP}/images/boot", "--arch", arch, "--smp", str(smp),
                           "--run", command, "--print", *boot).stdout)


def of_usual_guest(args):
    """The tool's arguments, with the architecture that tests mean where they name none: the tool's
    own default is the host's."""
    if (args[0] in ("record", "xml") and "--" not in args and "--arch" not in args and
            "--continue" not in args):
        return [args[0], "--arch", USUAL_ARCH, *args[1:]]
    return args


def end(process, status=0):
    """Wait for the end of the tool; return what it said on stderr."""
    said = process.communicate(timeout=PATIENCE_S)[1]
    check(process.returncode == status,
          f"{' '.join(process.args)}: status {process.returncode}, not {status}: {said}")
    return said


def kill_recorder(process):
    """Kill the QEMU that records; return what the tool says of that on stderr."""
    kill_emulator(process)
    return end(process, 1)


def check_race(directory):
    """Check that lines have passed between its vCPUs, not just once or twice."""
    arcs = info(directory)["arcs"]
    check(arcs > 10, f"there was no race: {arcs} arcs")


class GuestWorkspace(Workspace):
    """A workspace in which the tool records and replays."""

    def __init__(self):
        super().__init__()
        # A short recording that tests share: directory, what the guest showed, what was said.
        self.hello = self.shared(self._record_hello)

    def start(self, *args, prefix=(), env=None, stderr=subprocess.PIPE):
        """Start the tool in the background; what its guest shows goes to the console."""
        need(USUAL_ARCH)
        self._note(args, prefix, env)
        with open(self.console.path, "wb") as console:
            process = subprocess.Popen([*prefix, REPRISE, *of_usual_guest(args)],
                                       stdin=subprocess.DEVNULL, stdout=console, stderr=stderr,
                                       encoding="utf-8", env=env)
        after_test(stop_tool, process, QUIT_S)
        return process

    def _note(self, args, prefix, env):
        """Note which recording the tool uses."""
        if args[0] == "record" and "-o" in args:
            self.use(args[args.index("-o") + 1])
        elif args[0] == "replay":
            self.use(args[1], replay_command(*args[1:], prefix=prefix, env=env))
        elif args[0] == "debug":
            self.use(args[1])

    def record(self, directory, *args, status=0):
        """Return what the guest showed, and the line that the tool says."""
        said = end(self.start("record", "-o", directory, *args), status)
        return self.console.read(), one_line(said)

    def replay(self, directory, *args, status=0, env=None):
        """Return what the replay showed, and the line that the tool says."""
        said = end(self.start("replay", directory, *args, env=env), status)
        return self.console.read(), one_line(said)

    def check_replay(self, directory, output, *options):
        """It replays identically, and shows again what the guest showed from there on."""
        replayed, said = self.replay(directory, *options)
        check("replayed identically" in said, said)
        check(output.endswith(replayed) and (replayed or "--from" in options),
              f"recorded:\n{output}\nreplayed {options}:\n{replayed}")

    def check_checkpoints(self, directory, output, least):
        """It has so many checkpoints at least, and replays from some: a busy host makes many."""
        n = len(info(directory)["checkpoints"])
        check(n >= least, f"only {n} checkpoints")
        for number in sorted({0, 1, 2, n // 2, n - 1} & set(range(n))):
            self.check_replay(directory, output, "--from", str(number))

    def _record_hello(self):
        directory = self.place("hello")
        return directory, *self.record(directory, "--run", "echo hello")

    def copy_of_hello(self):
        """Return a copy of the recording hello(), to be spoiled."""
        return shutil.copytree(self.hello()[0], self.place("spoiled"))
