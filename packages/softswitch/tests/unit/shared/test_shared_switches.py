"""Switches that are forks of one process: for who starts them they are processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from softswitch import shared_server
from softswitch.processes import reserved_port
from softswitch.shared import VARIABLE, command, place
from softswitch.shared.messages import receive, start_request
from switch_harness import PROGRAMS
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says, says_in_one_line

SOURCES = Path(__file__).parents[3] / "src"
PROGRAM = PROGRAMS / "ecn.json"


class SharedSwitches:
    """Switches of one shared process, which no other test uses."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self.folder = stack, folder
        self.environment = {**os.environ, VARIABLE: "1", "TMPDIR": str(folder)}
        self.environment["PYTHONPATH"] = os.pathsep.join([str(SOURCES), os.environ.get("PYTHONPATH", "")])

    def start(self, *words: str, program: str = str(PROGRAM)) -> tuple[subprocess.Popen[bytes], Path]:
        """Start a switch; return its command and the file of its standard error."""
        port = self._stack.enter_context(reserved_port(socket.SO_REUSEADDR))
        errors = self.folder / f"{port}.err"
        with errors.open("w") as file:
            switch = [sys.executable, "-m", "softswitch", program, "--grpc-server-addr", f"127.0.0.1:{port}"]
            process = subprocess.Popen(
                [*switch, *words], stderr=file, env=self.environment, cwd=self.folder,
            )  # fmt: skip
        self._stack.callback(process.wait, PATIENCE_S)
        self._stack.callback(process.terminate)
        return process, errors


def pid_of_peer(path: str) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        try:
            connection.connect(path)
        except OSError:
            return None
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])


@contextmanager
def environment_of(switches: SharedSwitches) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in switches.environment.items():
            patched.setenv(name, value)
        yield


@pytest.fixture
def switches(tmp_path: Path) -> Iterator[SharedSwitches]:
    with ExitStack() as stack:
        found = SharedSwitches(stack, tmp_path)
        yield found
        stack.close()
        with environment_of(found):
            path = place.socket_path()
        pid = pid_of_peer(path)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        for name in (path, f"{path}.lock", f"{path}.log"):
            Path(name).unlink(missing_ok=True)


def is_ready(errors: Path) -> bool:
    return says(errors.read_text(), "softswitch", "ready", "0 ports")


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in found.split()]


def arguments_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def test_switches_are_forks_of_one_process_and_end_with_their_commands(switches: SharedSwitches) -> None:
    counters = switches.folder / "counters.json"
    (first, first_errors), (second, second_errors) = (
        switches.start("--counters", "counters.json"),
        switches.start(),
    )
    wait_for(lambda: is_ready(first_errors) and is_ready(second_errors))
    with environment_of(switches):
        shared = pid_of_peer(place.socket_path())
    assert shared is not None
    wait_for(lambda: len(children(shared)) == 2)
    assert all(str(PROGRAM) in arguments_of(pid) for pid in children(shared))
    counters.unlink()
    first.send_signal(signal.SIGUSR1)
    wait_for(counters.exists)
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    wait_for(lambda: len(children(shared)) == 1)
    second.kill()
    wait_for(lambda: children(shared) == [])
    failed, errors = switches.start(program="missing.json")
    assert failed.wait(PATIENCE_S) == 1
    assert says_in_one_line(errors.read_text().splitlines()[-1], "softswitch", "missing.json")


def test_a_switch_whose_shared_process_is_killed_ends_with_an_error(switches: SharedSwitches) -> None:
    switch, errors = switches.start()
    wait_for(lambda: is_ready(errors))
    with environment_of(switches):
        shared = pid_of_peer(place.socket_path())
    assert shared is not None
    [fork] = children(shared)
    os.kill(shared, signal.SIGKILL)
    assert switch.wait(PATIENCE_S) == 1
    assert says(errors.read_text(), "error", "process that switches share")
    wait_for(lambda: not Path(f"/proc/{fork}/fd").exists() or "Z" in state_of(fork))


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_switch_that_no_process_can_fork_is_run_by_its_command(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    path = place.socket_path()
    assert command.run(["--no-p4"]) is None
    assert says_in_one_line(capfd.readouterr().err.strip(), "shares no process")
    for name in (path, f"{path}.lock", f"{path}.log"):
        Path(name).unlink()
    (tmp_path / f"hotline-{os.getuid()}").mkdir(mode=0o777)
    (tmp_path / f"hotline-{os.getuid()}").chmod(0o777)
    monkeypatch.setattr(place, "_TEMPORARY", str(tmp_path))
    assert command.run(["--no-p4"]) is None
    assert says_in_one_line(capfd.readouterr().err.strip(), "shares no process", tmp_path)


def test_the_place_follows_from_all_that_a_fork_cannot_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "softswitch" / "source.py"
    source.parent.mkdir()
    source.touch()
    monkeypatch.setattr(place, "_SOURCES", str(tmp_path))
    paths = [place.socket_path()]
    monkeypatch.setenv("ANY_VARIABLE", "1")
    assert place.socket_path() == paths[0]
    monkeypatch.setenv("NUMBA_DEBUG", "1")
    paths.append(place.socket_path())
    os.utime(source, (1, 1))
    paths.append(place.socket_path())
    monkeypatch.setattr(os, "nice", lambda increment: 5)
    paths.append(place.socket_path())
    monkeypatch.setattr(place, "_text", lambda path: "0::/another.slice")
    paths.append(place.socket_path())
    assert len(set(paths)) == len(paths)
    assert {Path(path).parent for path in paths} == {Path(f"/tmp/hotline-{os.getuid()}")}


def test_a_shared_process_without_switches_ends_and_removes_its_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared_server, "IDLE_S", 0.01)
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        assert shared_server.ForkingServer(listener, path).serve() is None
    assert not Path(path).exists()


def test_a_fork_takes_over_the_folder_umask_cpus_and_environment_of_its_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In a process of this test, since the fork goes on as the switch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_COMMAND", "1")
    request = start_request(["--no-p4"])
    reader, writer = os.pipe()
    namespaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY) for name in ("net", "mnt")]
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os.chdir("/")
            os.environ.clear()
            standard = [os.dup(fd) for fd in (0, writer, 2)]
            shared_server.become_switch(parent, request, [*standard, *namespaces])
            cpus = len(os.sched_getaffinity(0))
            variable, is_leader = os.environ.get("OF_THE_COMMAND"), os.getsid(0) == os.getpid()
            os.write(1, f"{os.getcwd()} {variable} {cpus} {is_leader}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with open(reader) as output:
        assert output.read() == f"{tmp_path} 1 {len(os.sched_getaffinity(0))} True"
    for fd in namespaces:
        os.close(fd)


def test_messages_of_another_user_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        server = shared_server.ForkingServer(listener, path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(path)
            monkeypatch.setattr(os, "getuid", lambda: 12345)
            server._accept()
            assert server._switches == {} and receive(connection) is None


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGHUP, -signal.SIGHUP)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_ends_a_command_whose_shared_process_does_not_answer(number: int, status: int) -> None:
    """It imports or compiles, which takes minutes on a slow machine."""
    with ExitStack() as stack:
        ends = [
            stack.enter_context(end)
            for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM)
            for end in socket.socketpair(socket.AF_UNIX, kind)
        ]
        connection, _, wakeups, of_signals = ends
        of_signals.send(bytes([number]))
        assert command._wait(connection, wakeups) == status
