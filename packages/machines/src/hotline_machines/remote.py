"""A machine as the run sees it: calls to its supervisor, and its processes."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from hotline_machines.channel import (
    Channel,
    ChildExit,
    ChildOutput,
    EndRequest,
    Farewell,
    Greeting,
    OperationAnswer,
    OperationCall,
    SwitchEnd,
    WorkerConnection,
    connect,
)
from hotline_machines.cluster import Machine
from hotline_machines.errors import MachineLost
from hotline_machines.launch import LaunchedSupervisor
from hotline_machines.supervisor.server import CONTROL, END
from softswitch.progress import ENDED, Activity, read_activity
from topologies.agent_process import MAX_LINE_BYTES
from topologies.script_command import ScriptCommand

_END_TIMEOUT_S = 2.0
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class RemoteInput:
    """Standard input of a process of a machine."""

    def __init__(self, machine: RemoteMachine, number: int) -> None:
        self._machine, self._number = machine, number
        self._is_closed = False

    def write(self, data: bytes) -> None:
        self._machine.send("write", number=self._number, data=self._machine.translate(data))

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._machine.send("close_input", number=self._number)

    async def wait_closed(self) -> None:
        pass  # what is sent needs no confirmation


class RemoteProcess:
    """A `topologies.agent_process.ChildProcess` or `topologies.testbed.ScriptProcess` elsewhere."""

    def __init__(self, machine: RemoteMachine, number: int, log_file: Path) -> None:
        self.stdin = RemoteInput(machine, number)
        self.stdout = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        self.pid = 0  # set when it has started
        self.returncode: int | None = None
        self._machine, self._number, self._log_file = machine, number, log_file
        self._end_event = asyncio.Event()

    def kill(self) -> None:
        self._machine.send("kill", number=self._number)

    def signal_group(self, signal_number: signal.Signals) -> None:
        self._machine.send("signal_group", number=self._number, signal_number=signal_number)

    async def activity(self) -> Activity:
        return await self._machine.read_activity(self.pid) if self.returncode is None else ENDED

    async def wait(self) -> int:
        await self._end_event.wait()
        assert self.returncode is not None
        return self.returncode

    def feed(self, output: ChildOutput) -> None:
        if output.is_error:
            self._log(output.data)
        else:
            self.stdout.feed_data(output.data)

    def end(self, code: int, reason: str = "") -> None:
        """Mark the process as ended; `reason` is logged as if the process had written it."""
        if self.returncode is not None:
            return
        if reason:
            self._log(f"{reason}\n".encode())
        self.returncode = code
        self.stdout.feed_eof()
        self._end_event.set()

    def _log(self, data: bytes) -> None:
        with self._log_file.open("ab") as log_file:
            log_file.write(data)


class RemoteMachine:
    """The connection to a supervisor. When it is lost, all processes of the machine count as killed."""

    def __init__(
        self,
        machine: Machine,
        launched: LaunchedSupervisor,
        run: Path,
        channel: Channel,
        address: str,
        open_stream: Callable[[str], Awaitable[_Streams]],
    ) -> None:
        self.machine, self.pid, self.address = machine, launched.pid, address
        self.port = launched.port
        self.open_stream = open_stream
        """Opens another connection to the supervisor, for a purpose."""
        self.folder = Path(launched.folder)
        self.is_shared = self.folder == run
        self.lost_event = asyncio.Event()
        self.lost_reason = ""
        self.on_switch_end: Callable[[SwitchEnd], None] = lambda end: None
        self.on_worker: dict[str, Callable[[int], None]] = {}
        """Path of a socket for workers -> what to do with the number of a new connection."""
        self.end_requested = asyncio.Event()
        self._run, self._channel = run, channel
        self._numbers = count(1)
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._processes: dict[int, RemoteProcess] = {}
        self._is_ending = False
        self._read_task = asyncio.ensure_future(self._read())

    @staticmethod
    async def open(
        machine: Machine,
        launched: LaunchedSupervisor,
        run: Path,
        address: str,
        token: str,
        tls: ssl.SSLContext | None,
    ) -> RemoteMachine:
        async def open_stream(purpose: str) -> _Streams:
            return await connect(address, launched.port, Greeting(token, purpose), tls)

        try:
            streams = await open_stream(CONTROL)
        except MachineLost as error:
            raise MachineLost(f"{machine.name}: {error}") from None
        return RemoteMachine(machine, launched, run, Channel(*streams), address, open_stream)

    @property
    def name(self) -> str:
        return self.machine.name

    def translate(self, data: bytes) -> bytes:
        """Replace the run's folder, as it is or in JSON, by that of this machine."""
        if not self.is_shared:
            for encode in (bytes, _encode_in_json):
                data = data.replace(encode(self._run), encode(self.folder))
        return data

    async def call(self, operation: str, **arguments: object) -> Any:
        """Return the result of an operation; raise its error, or `MachineLost`."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost_event.is_set():
            raise self.lost_error()
        number = next(self._numbers)
        self._pending[number] = answer
        try:
            self._channel.send(OperationCall(number, operation, arguments))
            await self._channel.drain()
            return await answer
        except OSError:
            raise self.lost_error() from None
        finally:
            self._pending.pop(number, None)

    def send(self, operation: str, **arguments: object) -> None:
        """OperationCall an operation whose result does not matter."""
        self._channel.send(OperationCall(next(self._numbers), operation, arguments))

    async def start_agent(
        self, namespace: str, module: str, arguments: Sequence[str], log_file: Path
    ) -> RemoteProcess:
        translated = [self.translate(argument.encode()).decode() for argument in arguments]
        return await self._start(
            "start_agent", log_file, namespace=namespace, module=module, arguments=translated
        )

    async def start_script(
        self, namespace: str, command: ScriptCommand, folder: Path, log_file: Path
    ) -> RemoteProcess:
        return await self._start(
            "start_script", log_file, namespace=namespace, command=command, folder=str(folder)
        )

    async def _start(self, operation: str, log_file: Path, **arguments: object) -> RemoteProcess:
        number = next(self._numbers)
        process = RemoteProcess(self, number, log_file)
        self._processes[number] = process
        with suppress(MachineLost):  # the process has been marked as ended then
            process.pid = await self.call(operation, number=number, **arguments)
        return process

    async def read_activity(self, pid: int) -> Activity:
        """Return what a process of the machine does; `ENDED` if the machine is lost."""
        try:
            activities = await self.call("read_processes", read=read_activity, pids={"": pid})
        except MachineLost:
            return ENDED
        activity: Activity = activities[""]
        return activity

    def lost_error(self) -> MachineLost:
        return MachineLost(f"machine {self.name} is lost: {self.lost_reason or 'its connection is closed'}")

    async def wait_until_lost(self) -> None:
        await self.lost_event.wait()
        raise self.lost_error()

    async def close(self) -> None:
        """Have the supervisor end, and wait until it has closed the connection, but not for long."""
        self._is_ending = True
        if not self.lost_event.is_set():
            self.send(END)
            await asyncio.wait([self._read_task], timeout=_END_TIMEOUT_S)
        self._read_task.cancel()
        await asyncio.gather(self._read_task, return_exceptions=True)
        await self._channel.close()

    async def _read(self) -> None:
        try:
            while True:
                self._handle(await self._channel.receive())
        except MachineLost as error:
            self.lost_reason = self.lost_reason or str(error)
            self.lost_event.set()
            for answer in self._pending.values():
                if not answer.done():
                    answer.set_exception(self.lost_error())
            reason = "" if self._is_ending else str(self.lost_error())
            for process in self._processes.values():
                process.end(-signal.SIGKILL, reason)

    def _handle(self, message: object) -> None:
        if isinstance(message, OperationAnswer):
            answer = self._pending.get(message.number)
            if answer is not None and not answer.done():
                if message.error is None:
                    answer.set_result(message.result)
                else:
                    answer.set_exception(message.error)
        elif isinstance(message, ChildOutput):
            self._processes[message.process].feed(message)
        elif isinstance(message, ChildExit):
            self._processes[message.process].end(message.code)
        elif isinstance(message, Farewell):
            self.lost_reason = message.reason
        elif isinstance(message, SwitchEnd):
            self.on_switch_end(message)
        elif isinstance(message, WorkerConnection):
            if message.path in self.on_worker:
                self.on_worker[message.path](message.number)
        elif isinstance(message, EndRequest):
            self.end_requested.set()


def _encode_in_json(path: Path) -> bytes:
    return json.dumps(str(path))[1:-1].encode()
