"""Start agents by the fork server of this machine: they share the time and memory that their imports take."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from experiment.errors import AgentFailed
from experiment.processes import ProcessLimit
from foundation.checkout import environment_with_checkout
from foundation.limits import wait_within
from hosts.start_request import MAX_REQUEST_BYTES, StartRequest
from softswitch.progress import Activity, last_line, read_activity

AGENTS_LOG = "agents.log"
"""Name of the fork server's log in a folder of logs."""
_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 3.0
_PADDING = " " * 1_024
_WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "_RJEM_MALLOC_CONF": "background_thread:false"}
"""Variables with which importing NumPy and Polars starts no threads, which forked agents would not have."""
_MAX_LINE_BYTES = 1 << 20


class PipeWriter(asyncio.BaseProtocol):
    """The end of a pipe to a process's standard input."""

    def __init__(self) -> None:
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self._closed.done():
            self._closed.set_result(None)

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)


class PipeReader(NamedTuple):
    """The end of a pipe from a process's standard output or error."""

    transport: asyncio.ReadTransport
    reader: asyncio.StreamReader

    def close(self) -> None:
        self.transport.close()


class ForkedProcess:
    """A `topologies.agent_process.ChildProcess` that the fork server has started."""

    def __init__(
        self,
        launcher: AgentLauncher,
        pid: int,
        stdin: PipeWriter,
        stdout: PipeReader,
        stderr: PipeReader | None,
    ) -> None:
        self.pid, self.stdin = pid, stdin
        self.stdout, self.stderr = stdout.reader, None if stderr is None else stderr.reader
        self._pipes: list[PipeWriter | PipeReader] = [stdin, stdout, *([] if stderr is None else [stderr])]
        self.returncode: int | None = None
        self._launcher = launcher
        self._end_event = asyncio.Event()

    def kill(self) -> None:
        self._launcher.send({"kill": self.pid})

    async def wait(self) -> int:
        await self._end_event.wait()
        assert self.returncode is not None
        return self.returncode

    def end(self, code: int) -> None:
        self.returncode = code
        self._end_event.set()

    def close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()


class AgentLauncher:
    """The connection to a fork server, with whose end all of its agents end."""

    def __init__(self, connection: socket.socket, log: Path, pid: int) -> None:
        self._connection, self._log, self._pid = connection, log, pid
        self._lock = asyncio.Lock()
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        """Number of a request that is not answered -> its answer."""
        self._processes: dict[int, ForkedProcess] = {}
        self._launched: list[ForkedProcess] = []
        self._ended_early: dict[int, int] = {}
        """Code by process id of agents whose end is reported before `launch` returns."""
        self._is_lost = False
        connection.setblocking(False)
        asyncio.get_running_loop().add_reader(connection, self._read)

    async def launch(
        self,
        module: str,
        arguments: Sequence[str],
        namespace: Path | None = None,
        stderr: int | None = None,
    ) -> ForkedProcess:
        """Start `python -m MODULE ARGUMENTS` in a network namespace; without `stderr`, it has a pipe.

        Raises `AgentFailed` if the fork server cannot.
        """
        with ExitStack() as own, ExitStack() as passed:

            def pipe(is_input: bool) -> tuple[int, int]:
                """Return the process's end of a pipe, and this process's."""
                read_fd, write_fd = os.pipe()
                child_fd, own_fd = (read_fd, write_fd) if is_input else (write_fd, read_fd)
                passed.callback(os.close, child_fd)
                own.callback(os.close, own_fd)
                return child_fd, own_fd

            stdin, input_fd = pipe(is_input=True)
            stdout, output_fd = pipe(is_input=False)
            error_fd = None
            if stderr is None:
                stderr, error_fd = pipe(is_input=False)
            fds = [stdin, stdout, stderr]
            if namespace is not None:
                fds.append(os.open(namespace, os.O_RDONLY))
                passed.callback(os.close, fds[-1])
            pid = await self._start(StartRequest(next(self._numbers), module, list(arguments)), fds)
            own.pop_all()
        process = ForkedProcess(
            self,
            pid,
            await _writer(input_fd),
            await _reader(output_fd),
            None if error_fd is None else await _reader(error_fd),
        )
        self._processes[pid] = process
        self._launched.append(process)
        if pid in self._ended_early:
            self._end(pid, self._ended_early.pop(pid))
        elif self._is_lost:
            self._end(pid, -signal.SIGKILL)
        return process

    def send(self, message: dict[str, object], fds: Sequence[int] = ()) -> None:
        with suppress(OSError):  # it has ended, which `_read` finds
            socket.send_fds(self._connection, [json.dumps(message).encode()], list(fds))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()
        for process in self._launched:
            process.close_pipes()

    async def _start(self, request: StartRequest, fds: Sequence[int]) -> int:
        # One after another, since the socket's queue is short.
        async with self._lock:
            if self._is_lost:
                raise self._lost_error()
            answer_future = asyncio.get_running_loop().create_future()
            self._answers[request.number] = answer_future
            self.send(request._asdict(), fds)
            # Without cached machine code the fork server compiles it first.
            limit = ProcessLimit(_START_TIMEOUT_S, f"start of {request.module}", self._read_server)
            try:
                if not await wait_within(limit, answer_future):
                    raise AgentFailed(f"{request.module} was not started {limit.describe()}")
                answer: dict[str, Any] = answer_future.result()
            finally:
                del self._answers[request.number]
        if "error" in answer:
            raise AgentFailed(answer["error"])
        return int(answer["pid"])

    async def _read_server(self) -> dict[str, Activity]:
        return {"the fork server": read_activity(self._pid)}

    def _read(self) -> None:
        try:
            data = self._connection.recv(MAX_REQUEST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        message = json.loads(data)
        if "ended" in message:
            self._end(message["ended"], message["code"])
        # Who has given up a request has closed the pipes of its agent, which ends by that.
        elif (answer := self._answers.get(message["number"])) is not None and not answer.done():
            answer.set_result(message)

    def _end(self, pid: int, code: int) -> None:
        if pid in self._processes:
            self._processes.pop(pid).end(code)
        else:
            self._ended_early[pid] = code

    def _lose(self) -> None:
        """Count all agents as killed: they are, when their parent has ended."""
        self._is_lost = True
        asyncio.get_running_loop().remove_reader(self._connection)
        for pid in list(self._processes):
            self._end(pid, -signal.SIGKILL)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._lost_error())

    def _lost_error(self) -> AgentFailed:
        line = last_line(self._log)
        reason = f": {line}" if line else ""
        return AgentFailed(f"the fork server of agents has ended{reason} ({self._log})")


@asynccontextmanager
async def agent_launcher(
    module: str, design: str, log: Path, prefix: Sequence[str] = ()
) -> AsyncIterator[AgentLauncher]:
    """Start a fork server, the module of the agents, which is not waited for, and end it.

    `prefix` is a program that executes it.
    """
    connection, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with server_end, log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *prefix, sys.executable, "-m", module, str(server_end.fileno()), design,
            _PADDING,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**environment_with_checkout(), **_WITHOUT_THREADS},
            pass_fds=[server_end.fileno()],
            start_new_session=True,
        )  # fmt: skip
    launcher = AgentLauncher(connection, log, process.pid)
    try:
        yield launcher
    finally:
        launcher.close()
        try:
            await asyncio.wait_for(process.wait(), _END_TIMEOUT_S)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()


async def _writer(fd: int) -> PipeWriter:
    loop = asyncio.get_running_loop()
    _, protocol = await loop.connect_write_pipe(PipeWriter, os.fdopen(fd, "wb", buffering=0))
    return protocol


async def _reader(fd: int) -> PipeReader:
    reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return PipeReader(transport, reader)
