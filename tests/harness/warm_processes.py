"""`python -m MODULE` without its start: each process is a fork of one that has imported agents and runs.

`python -m tests.harness.warm_processes FD PADDING` is that process: a fork server as that of a run's agents
(`hotline_agents.fork_server`), which also has the modules of the runner. It is started when it is needed for
the first time, and ends with the tests. A process has the environment and the folder of that time, and given
variables.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from itertools import count
from selectors import EVENT_READ, DefaultSelector
from subprocess import DEVNULL, PIPE
from threading import Lock
from typing import IO, TypeAlias, TypeVar

from foundation.checkout import ROOT
from foundation.designs.registry import DEFAULT, design
from hosts.start_request import MAX_REQUEST_BYTES, StartRequest
from hotline_agents import fork_server
from topologies.agent_launcher import _PADDING, _WITHOUT_THREADS

T = TypeVar("T")
Stream: TypeAlias = "int | IO[str] | None"
"""A standard stream of a process, as for `subprocess.Popen`; pipes are texts."""

_START_TIMEOUT_S = 300.0
"""The first start imports modules, and compiles agents if that was not done at set-up."""
_TICK_S = 0.05
_READ_BYTES = 1 << 16
_RUNNER_MODULES = ("hotline.cli.run", "hotline.runs", "topologies.experiment", "topologies.lifecycle")
_WITH_VARIABLES = "tests.harness.with_variables"
_MININET = "topologies.mininet_api"  # its modules take as long as many of the runner's; may not be installed


class WarmProcess:
    """A process under way, with as much of `subprocess.Popen` as tests need."""

    def __init__(self, server: _Server, module: str, arguments: Sequence[str], *streams: Stream) -> None:
        own: list[IO[str] | None] = []
        with ExitStack() as passed:
            fds = []
            for number, stream in enumerate(streams):
                fd, pipe = _open_stream(stream, number)
                own.append(pipe)
                fds.append(fd)
                if stream in (PIPE, DEVNULL):
                    passed.callback(os.close, fd)
            self._server = server
            self._number, self.pid = server.start(module, arguments, fds)
        self.stdin, self.stdout, self.stderr = own
        self.returncode: int | None = None

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_pipes()
        self.wait()

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.code(self._number, 0.0)
        return self.returncode

    def wait(self, timeout: float = _START_TIMEOUT_S) -> int:
        if self.returncode is None:
            self.returncode = self._server.code(self._number, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def communicate(self, timeout: float = _START_TIMEOUT_S) -> tuple[str, str]:
        """Read both outputs to their ends, wait for the process, and close its pipes."""
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        read = {"stdout": b"", "stderr": b""}
        deadline = time.monotonic() + timeout
        with DefaultSelector() as selector:
            for name in read:
                if (pipe := getattr(self, name)) is not None:
                    selector.register(pipe, EVENT_READ, name)
            while selector.get_map():
                if not (ready := selector.select(max(0.0, deadline - time.monotonic()))):
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout, read["stdout"])
                for key, _ in ready:
                    more = os.read(key.fd, _READ_BYTES)
                    read[key.data] += more
                    if not more:
                        selector.unregister(key.fileobj)
        self.wait(max(0.0, deadline - time.monotonic()))
        self._close_pipes()
        return read["stdout"].decode(), read["stderr"].decode()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _close_pipes(self) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


class _Server:
    """The connection to the fork server. Several threads may use it."""

    def __init__(self) -> None:
        self._connection, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with server_end:
            fd = server_end.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.harness.warm_processes", str(fd), _PADDING],
                cwd=ROOT,
                stdin=DEVNULL,
                stdout=DEVNULL,
                env={**os.environ, **_WITHOUT_THREADS},
                pass_fds=[fd],
                start_new_session=True,
            )
        self._lock = Lock()
        self._numbers = count(1)
        self._started: dict[int, int | str] = {}
        """Number of a start -> process id, or an error."""
        self._number_of: dict[int, int] = {}
        """Process id -> number of its start, until its end."""
        self._codes: dict[int, int] = {}
        """Number of a start -> exit code."""

    def start(self, module: str, arguments: Sequence[str], fds: Sequence[int]) -> tuple[int, int]:
        """Start `python -m MODULE ARGUMENTS`; return the number of the start, and the process id."""
        request = StartRequest(next(self._numbers), module, list(arguments))
        socket.send_fds(self._connection, [json.dumps(request._asdict()).encode()], fds)
        pid = self._wait_for(self._started, request.number, _START_TIMEOUT_S)
        assert isinstance(pid, int), f"{module} was not started: {pid}"
        return request.number, pid

    def code(self, number: int, timeout_s: float) -> int | None:
        """Return the exit code of a process; None if it has not ended after a time."""
        return self._wait_for(self._codes, number, timeout_s)

    def _wait_for(self, found: dict[int, T], number: int, timeout_s: float) -> T | None:
        deadline = time.monotonic() + timeout_s
        while number not in found:
            remaining_s = max(0.0, deadline - time.monotonic())
            with self._lock:
                if number not in found:
                    self._receive(min(_TICK_S, remaining_s))
            if not remaining_s:
                break
        return found.get(number)

    def _receive(self, timeout_s: float) -> None:
        """Receive all messages that have come; wait for the first one."""
        while select.select([self._connection], [], [], timeout_s)[0]:
            timeout_s = 0.0
            message = json.loads(self._connection.recv(MAX_REQUEST_BYTES) or "{}")
            assert message, "the process that tests fork has ended; the reason is on standard error"
            if "ended" in message:
                self._codes[self._number_of.pop(message["ended"])] = message["code"]
            elif "pid" in message:
                self._number_of[message["pid"]] = message["number"]
                self._started[message["number"]] = message["pid"]
            else:
                self._started[message["number"]] = message["error"]


_server = cache(_Server)


def warm_process(
    module: str,
    *arguments: str,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    variables: Mapping[str, str] | None = None,
) -> WarmProcess:
    """Start `python -m MODULE ARGUMENTS` as a session leader, with these environment variables, too."""
    if variables:
        module, arguments = _WITH_VARIABLES, (json.dumps(dict(variables)), module, *arguments)
    return WarmProcess(_server(), module, arguments, stdin, stdout, stderr)


def _open_stream(stream: Stream, number: int) -> tuple[int, IO[str] | None]:
    """Return the process's descriptor of standard stream `number`, and this process's end of a pipe."""
    if stream is None:
        return number, None
    if stream == DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if not isinstance(stream, int):
        return stream.fileno(), None
    read_fd, write_fd = os.pipe()
    return (write_fd, os.fdopen(read_fd)) if number else (read_fd, os.fdopen(write_fd, "w"))


def _serve(fd: int) -> None:
    # Not above, since those that start this process import this module.
    from controller.schemas import schema_of

    for module in _RUNNER_MODULES:
        import_module(module)
    with suppress(ImportError):
        import_module(_MININET)
    schema_of(design(DEFAULT))  # as text, it takes as long as many modules
    # Polars starts one that waits; the fork server counts those that come later.
    assert len(os.listdir("/proc/self/task")) <= 2, "an import has started threads, which forks lack"
    fork_server.main(fd, DEFAULT, not_inherited=_WITHOUT_THREADS)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
