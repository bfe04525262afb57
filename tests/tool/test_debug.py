# SPDX-License-Identifier: GPL-2.0-or-later
"""`reprise debug`: its options, where a debugger connects, how a session ends.

Most of it is tried with a stand-in for QEMU, and one for gdb.
"""

import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import stat
import subprocess
import termios
import time

from tests.lib.checkout import TOP
from tests.lib.checksum import change_manifest
from tests.lib.debug_session import DebugSession, start_debug
from tests.lib.guest_recording import GuestWorkspace
from tests.lib.process import one_line, run
from tests.lib.synthetic_recording import MAKE
from tests.lib.tap import after_test, check, main, test, test_each
from tests.lib.tool import BIN, REPRISE, emulator_of, need, stop_tool

work = GuestWorkspace()
TOOLS = os.path.join(TOP, "tests/tools")
GDB = os.path.join(TOOLS, "stand-in-gdb")
DIVERGED = "reprise: replay diverged: vCPU 0 at position 1500: ran past wake\n"
PATIENCE_S = 60


def emulators():
    return work.path("emulators")


def folder():
    """Return where the stand-ins are told what to do, and tell what they did."""
    return work.path("stand-in")


def temporary():
    return work.path("tmp")


def gdb_socket():
    return work.path("gdb.socket")


def environment():
    return {**os.environ, "REPRISE_QEMU_DIR": emulators(), "STAND_IN": folder(),
            "TMPDIR": temporary()}


@work.shared
def recorded():
    """A recording of no guest."""
    directory = work.place("made")
    run(MAKE, directory)
    return directory


@contextlib.contextmanager
def stand_in(**files):
    """In place of QEMU; the files change what it does.  Afterwards nothing is left behind."""
    need("aarch64")
    for directory in (emulators(), folder(), temporary()):
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
    os.symlink(os.path.join(TOOLS, "stand-in-qemu"),
               os.path.join(emulators(), "qemu-system-aarch64"))
    for name, text in files.items():
        with open(os.path.join(folder(), name), "w") as file:
            file.write(text)
    yield
    check(os.listdir(temporary()) == [], os.listdir(temporary()))
    check(not os.path.lexists(gdb_socket()), "the socket is still there")


def told(name):
    with open(os.path.join(folder(), name)) as file:
        return json.load(file)


def wait_for_file(name, session):
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(os.path.join(folder(), name)):
        check(time.monotonic() < deadline, f"no {name}: {session.said()}")
        time.sleep(0.01)


def debug(*options):
    """A session that is ready."""
    return start_debug(work, recorded(), *options, env=environment())


def launch(*options):
    """A session that may not be ready yet."""
    return DebugSession(work, recorded(), *options, env=environment())


def refused(*options, env=None, status=2):
    """The one line that it says."""
    done = run(REPRISE, "debug", *options, status=status, env=env or environment(),
               timeout=PATIENCE_S)
    check(done.stdout == "", done.stdout)
    return one_line(done.stderr)


def debugger(address):
    """A connection."""
    if ":" in address:
        host, port = address.split(":")
        connection = socket.create_connection((host, int(port)))
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
    connection.settimeout(PATIENCE_S)
    after_test(connection.close)
    return connection


def ask(connection, word):
    connection.sendall(word + b"\n")
    return connection.recv(100).strip()


def check_gone(pid):
    check(not os.path.exists(f"/proc/{pid}"), "QEMU is still there")


# --- the command line ------------------------------------------------------------------

@test
def usage_errors_are_one_line_and_status_2():
    for args, word in ((["x", "--port", "many"], "--port"), (["x", "--port", "65536"], "65535"),
                       (["x", "--port", "-1"], "--port"), (["x", "--port", ""], "--port"),
                       (["x", "--port", "1", "--socket", "y"], "not both"),
                       (["x", "--socket", ""], "path"), (["x", "--console", ""], "path"),
                       (["x", "--gdb", "--port", "1"], "--gdb"),
                       (["x", "--gdb=y", "--socket", "z"], "--gdb"),
                       (["x", "--vmlinux", "y"], "--gdb"),
                       (["x", "--snapshots", "much"], "a size"),
                       (["x", "--at", ""], "--at is"), (["x", "--at", "-1"], "not '-1'"),
                       (["x", "--at", "1x"], "not '1x'"), (["x", "--at", "middle"], "not 'middle'"),
                       (["x", "--at", "0x10"], "not '0x10'"),
                       (["x", "--at", str(1 << 64)], "--at is"),
                       (["x", "--at", "checkpoint"], "'checkpoint N'"),
                       (["x", "--at", "checkpoint", "1"], "in quotes"),
                       (["x", "--at", "checkpoint -1"], "--at is"),
                       (["x", "--at", "checkpoint 9999999999"], "--at is")):
        line = refused(*args)
        check(word in line and "reprise --help" in line, f"{args}: {line}")


@test
def a_recording_that_cannot_be_used_is_refused():
    with stand_in():
        check("nothing" in refused("/nothing"), "no recording")
        line = refused(recorded(), "--at", "checkpoint 1")
        check("has no checkpoint 1: reprise info lists them" in line, line)
        for key, value in (("patch-level", "0123"), ("log-version", "99"), ("arch", "mips")):
            spoiled = shutil.copytree(recorded(), work.place("spoiled"))
            change_manifest(spoiled, key, value)
            line = refused(spoiled)
            check(value in line, line)
        os.truncate(os.path.join(spoiled, "manifest"), 100)
        check("manifest" in refused(spoiled), "a damaged manifest")


@test
def other_things_that_are_missing_are_refused():
    with stand_in():
        for file, why in (("/nothing", "No such file"), (work.directory, "Is a directory")):
            line = refused(recorded(), "--gdb", "--vmlinux", file)
            check(file in line and why in line, line)
        check("no program nothing" in refused(recorded(), "--gdb=nothing"), "a gdb")
        line = refused(recorded(), "--gdb", env={**environment(), "PATH": "/nothing"})
        check("install gdb-multiarch" in line, line)
        line = refused(recorded(), "--gdb", env={**environment(), "TMPDIR": "/nothing"})
        check("/nothing" in line, line)
        os.unlink(os.path.join(emulators(), "qemu-system-aarch64"))
        line = refused(recorded(), "--socket", gdb_socket())
        check("no qemu-system-aarch64" in line, line)


@test
def what_qemu_objects_to_is_one_line():
    """Of the real one: it looks at some of its arguments after it has greeted."""
    need("aarch64")
    for path, why in (("/nothing/x", "No such file"), (work.directory, "Is a directory")):
        line = refused(recorded(), "--console", path, "--socket", gdb_socket(),
                       env={**environment(), "REPRISE_QEMU_DIR": BIN})
        check("QEMU does not start" in line and path in line and why in line, line)
        check(not os.path.lexists(gdb_socket()), "the socket is still there")


@test_each(["start", "end", "0", "1500", str((1 << 64) - 1), "checkpoint 0"])
def qemu_is_told_where_to_stand(where):
    with stand_in():
        session = debug("--at", where)
        words = {"start": "the start", "end": "the end"}.get(
            where, where if "c" in where else f"moment {where}")
        check(f"{recorded()} stands at {words};" in session.said(), session.said())
        check(told("arguments") == {"directory": recorded(), "at": where}, told("arguments"))
        session.end()


@test
def qemu_gets_what_the_user_wants_it_to():
    with stand_in():
        session = debug("--qmp", "a,b", "--", "-accel", "tcg,tb-size=8")
        check(told("arguments") == {"directory": recorded()}, told("arguments"))
        command = told("command")
        check(command[command.index("-qmp") + 1] == "unix:a,,b,server=on,wait=off", command)
        check(command[command.index("-accel") + 1] == "tcg,tb-size=8", command)
        check(command.count("-accel") == 1 and "-S" in command, command)
        check(told("monitor") == "gdbserver chardev:reprise-gdb", told("monitor"))
        session.end()


# --- where a debugger connects -----------------------------------------------------------

@test
def a_port_is_on_this_host_alone():
    with stand_in():
        session = debug()
        check(session.address.startswith("127.0.0.1:"), session.address)
        check(ask(debugger(session.address), b"hello") == b"answer", "no answer")
        try:
            debugger(session.address.replace("127.0.0.1", "127.0.0.2"))
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("it listens on other addresses")
        check("nodelay=on" in " ".join(told("command")), told("command"))
        session.end()


@test
def a_port_in_use_is_refused():
    with stand_in(), socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        line = refused(recorded(), "--port", port)
        check(f"port {port} is in use" in line and "--port" in line and "--socket" in line, line)
        with contextlib.suppress(OSError):              # somebody else has it: as well
            after_test(socket.create_server(("127.0.0.1", 1234)).close)
        check("port 1234 is in use" in refused(recorded()), "the default")


@test
def a_port_can_be_used_again_at_once():
    with stand_in():
        session = debug()
        connection = debugger(session.address)
        ask(connection, b"hello")
        session.end()
        connection.close()
        again = debug("--port", session.address.split(":")[1])
        check(again.address == session.address, again.address)
        again.end()


@test
def a_socket_is_the_users_own_and_goes_away():
    with stand_in():
        session = debug("--socket", os.path.relpath(gdb_socket()))
        check(session.address == gdb_socket(), session.address)
        mode = os.lstat(gdb_socket()).st_mode
        check(stat.S_ISSOCK(mode) and mode & 0o077 == 0, oct(mode))
        check(ask(debugger(session.address), b"hello") == b"answer", "no answer")
        session.end()


@test
def a_stale_socket_is_replaced():
    with stand_in():
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(gdb_socket())
        session = debug("--socket", gdb_socket())
        check(ask(debugger(session.address), b"hello") == b"answer", "no answer")
        session.end()


@test
def a_killed_session_does_not_prevent_the_next():
    with stand_in():
        session = debug("--socket", gdb_socket())
        qemu = emulator_of(session.process)
        session.process.kill()
        session.process.wait()
        deadline = time.monotonic() + PATIENCE_S
        while os.path.exists(f"/proc/{qemu}"):          # it is told that nobody needs it
            check(time.monotonic() < deadline, "QEMU stays")
            time.sleep(0.01)
        session = debug("--socket", gdb_socket())
        session.end()


@test
def a_socket_of_somebody_else_is_left_alone():
    with stand_in():
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(gdb_socket())
            server.listen(1)
            for _ in range(3):                          # more than may wait
                line = refused(recorded(), "--socket", gdb_socket())
                check("somebody else" in line, line)
            server.accept()[0].close()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(gdb_socket())
        os.unlink(gdb_socket())


@test
def another_session_is_left_alone():
    with stand_in():
        session = debug("--socket", gdb_socket())
        connection = debugger(session.address)
        check("somebody else" in refused(recorded(), "--socket", gdb_socket()), "the first time")
        check(ask(connection, b"hello") == b"answer", "no answer")
        session.end()


@test
def a_file_that_is_no_socket_is_left_alone():
    with stand_in():
        link = os.path.join(folder(), "link")
        os.symlink(os.path.join(folder(), "keep"), link)
        with open(os.path.join(folder(), "keep"), "w") as file:
            file.write("mine")
        for path in (os.path.join(folder(), "keep"), folder(), link,
                     os.path.join(folder(), "wait")):
            if path.endswith("wait"):
                os.mkfifo(path)
            line = refused(recorded(), "--socket", path)
            check(path in line and "no socket" in line, line)
        with open(link) as file:
            check(file.read() == "mine", "it was changed")


@test
def a_socket_that_cannot_be_made_is_refused():
    with stand_in():
        for path, word in (("/nothing/socket", "No such file"), ("/" + "x" * 200, "too long")):
            line = refused(recorded(), "--socket", path)
            check(path in line and word in line, line)


@test
def somebody_elses_socket_of_that_name_is_not_removed():
    """That came while we were busy."""
    with stand_in():
        session = debug("--socket", gdb_socket())
        os.unlink(gdb_socket())
        with open(gdb_socket(), "w"):
            pass
        session.end()
        os.unlink(gdb_socket())


@test
def a_debugger_that_is_too_early_waits():
    with stand_in(wait=""):
        session = launch("--socket", gdb_socket())
        wait_for_file("arguments", session)
        connection = debugger(gdb_socket())
        connection.sendall(b"hello\n")
        check(not session.is_ready(), session.said())
        os.unlink(os.path.join(folder(), "wait"))
        check(connection.recv(100) == b"answer\n", "no answer")
        session.wait_until_ready()
        session.end()


# --- how it ends -------------------------------------------------------------------------

@test
def debuggers_come_and_go():
    with stand_in():
        session = debug()
        for _ in range(3):
            connection = debugger(session.address)
            check(ask(connection, b"hello") == b"answer", "no answer")
            connection.close()
        session.end()


@test_each(["SIGINT", "SIGTERM", "SIGHUP"])
def a_signal_ends_it(name):
    with stand_in():
        session = debug("--socket", gdb_socket())
        qemu = emulator_of(session.process)
        session.process.send_signal(getattr(signal, name))
        check(session.finish() == "", session.said())
        check_gone(qemu)


@test
def a_debugger_can_end_it():
    with stand_in():
        session = debug("--socket", gdb_socket())
        debugger(session.address).sendall(b"kill\n")
        check(session.finish() == "", session.said())


@test
def a_crash_of_qemu_is_told():
    with stand_in():
        session = debug("--socket", gdb_socket())
        debugger(session.address).sendall(b"crash\n")
        line = one_line(session.finish(status=2))
        check(line == "reprise: QEMU ended with signal 9 (Killed) during the session", line)


@test
def a_signal_on_the_way_ends_it_at_once():
    """Though QEMU does not listen."""
    with stand_in(wait=""):
        session = launch("--socket", gdb_socket(), "--at", "end")
        wait_for_file("arguments", session)
        qemu = emulator_of(session.process)
        started = time.monotonic()
        session.process.send_signal(signal.SIGINT)
        check(one_line(session.finish(status=2)) == "reprise: interrupted", session.said())
        check(time.monotonic() - started < 10, "it took long")
        check_gone(qemu)


@test
def what_qemu_refuses_is_one_line():
    with stand_in(refuse="moment 1500 is after the end"):
        line = refused(recorded(), "--socket", gdb_socket(), "--at", "1500")
        check(line == "reprise: moment 1500 is after the end", line)


@test
def a_divergence_is_told_and_is_the_status():
    with stand_in():
        session = debug()
        connection = debugger(session.address)
        for _ in range(2):                              # once is enough to tell
            check(ask(connection, b"diverge") == b"sent", "no answer")
        check(session.end(status=1) == DIVERGED, session.said())


@test
def a_divergence_on_the_way_is_told():
    with stand_in(diverge=""):
        session = debug()
        check(session.end(status=1) == DIVERGED, session.said())
    with stand_in(diverge="", refuse="it diverged"):
        line = refused(recorded(), status=1)
        check(line + "\n" == DIVERGED, line)


# --- the guest's console -----------------------------------------------------------------

@test
def the_console_goes_where_it_shall():
    path = os.path.join(folder(), "output, of the guest")
    with stand_in():
        session = debug()
        session.end()
        check(work.console.read() == b"console\n", work.console.read())
        session = debug("--console", path)
        session.end()
        with open(path) as file:
            check(work.console.read() == b"" and file.read() == "console\n", work.console.read())
        check(with_gdb("do", "0").stdout == "gdb: connected\n", "with gdb: nowhere")
        os.unlink(path)
        with_gdb("do", "0", options=("--console", path))
        check(os.path.exists(path), "with gdb: a file")


# --- gdb at the terminal -------------------------------------------------------------------

def with_gdb(*words, status=0, options=()):
    return run(REPRISE, "debug", recorded(), f"--gdb={GDB}", *options, "--", *words,
               status=status, env=environment(), timeout=PATIENCE_S)


@test
def gdb_is_started_and_its_status_is_ours():
    with stand_in():
        for status in (0, 1, 7):
            done = with_gdb("do", "hello", str(status), status=status)
            check(done.stdout == "gdb: connected\ngdb: answer\n" and done.stderr == "", done)
        check(told("gdb")["blocked"] == [], told("gdb"))
        arguments = told("gdb")["arguments"]
        check(arguments[0] == "-x" and arguments[2] == "-ex" and
              arguments[4:] == ["do", "hello", "7"], arguments)
        for path in (arguments[1], arguments[3].removeprefix("target remote ")):
            check(path.startswith(temporary()) and not os.path.exists(os.path.dirname(path)), path)
        check("-accel tcg,thread=multi" in " ".join(told("command")), told("command"))


@test
def gdb_gets_the_kernel_and_arguments():
    with stand_in():
        vmlinux = os.path.join(folder(), "the kernel")
        with open(vmlinux, "w"):
            pass
        with_gdb("-q", "do", "0", options=("--vmlinux", os.path.relpath(vmlinux)))
        check(told("gdb")["arguments"][4:] == [vmlinux, "-q", "do", "0"], told("gdb"))


@test
def gdb_is_the_one_for_all_guests_if_there_is_one():
    with stand_in():
        programs = os.path.join(folder(), "programs")
        os.mkdir(programs)
        env = {**environment(), "PATH": f"{programs}:/usr/bin:/bin"}
        os.symlink(GDB, os.path.join(programs, "gdb"))
        os.symlink(GDB, os.path.join(programs, "gdb-multiarch"))
        for options, name in (((), "gdb-multiarch"), (("--gdb=gdb",), "gdb")):
            process = subprocess.run([REPRISE, "debug", "--gdb", *options, recorded(), "--", "do",
                                      "die"],
                                     env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            check(process.returncode == 128 + signal.SIGKILL and process.stderr == b"", process)
            check(told("gdb")["name"] == os.path.join(programs, name), told("gdb"))


@test
def gdb_may_stay_when_qemu_has_ended():
    with stand_in():
        done = with_gdb("do", "kill", "5", status=5)
        check(done.stdout == "gdb: connected\ngdb: gone\n" and done.stderr == "", done)
        done = with_gdb("do", "crash", "0", status=2)
        check("signal 9" in one_line(done.stderr), done)


@test
def a_divergence_is_told_also_with_gdb():
    with stand_in():
        for status, ours in ((0, 1), (7, 7)):
            check(with_gdb("do", "diverge", str(status), status=ours).stderr == DIVERGED, "")


class Terminal:
    """With the tool, and its gdb, in the foreground."""

    def __init__(self, *args):
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [REPRISE, "debug", recorded(), *args], stdin=theirs, stdout=theirs, stderr=theirs,
            env={**environment(), "TERM": "xterm"}, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.text = b""
        after_test(os.close, self.ours)
        after_test(stop_tool, self.process, PATIENCE_S)

    def wait_for(self, word):
        """... which is taken, with all before it."""
        while word.encode() not in self.text:
            try:
                self.text += os.read(self.ours, 4096)
            except OSError:                             # nobody has the other side any more
                raise AssertionError(f"no {word} in {self.text}") from None
        self.text = self.text.partition(word.encode())[2]

    def type(self, keys):
        os.write(self.ours, keys)


@test
def what_is_typed_is_for_gdb():
    """Also a second Ctrl-C, later, which would kill QEMU if it were for us; and Ctrl-\\."""
    with stand_in():
        keys = (("SIGINT", b"\x03"), ("SIGQUIT", b"\x1c"), ("SIGINT", b"\x03"))
        terminal = Terminal(f"--gdb={GDB}", "--", "do", *(name for name, _ in keys), "hello", "4")
        for name, key in keys:
            terminal.wait_for(f"waiting for {name}")
            terminal.type(key)
            terminal.wait_for(f"got {name}")
            time.sleep(0.6)             # so that the last is not taken for the first
        terminal.wait_for("answer")
        check(terminal.process.wait(PATIENCE_S) == 4, terminal.text)


@test
def a_signal_ends_gdb_too():
    with stand_in():
        terminal = Terminal(f"--gdb={GDB}", "--", "do", "stay")
        terminal.wait_for("staying")
        qemu = emulator_of(terminal.process)
        terminal.process.terminate()
        check(terminal.process.wait(PATIENCE_S) == 0, terminal.text)
        check_gone(qemu)


@test
def it_tells_that_it_is_on_its_way():
    with stand_in(wait=""):
        terminal = Terminal("--port", "0", "--at", "end")
        terminal.wait_for("going to the end of ")
        terminal.wait_for(": 1 s")
        os.unlink(os.path.join(folder(), "wait"))
        terminal.wait_for("\r\x1b[K")
        terminal.wait_for("(gdb) target remote 127.0.0.1:")
        terminal.type(b"\x03")
        check(terminal.process.wait(PATIENCE_S) == 0, terminal.text)


main(work)
