"""The supervisor's end of its connections: one of the run, and those to the switch's P4Runtime server."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import shutil
import signal
import ssl
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from experiment.run_config import Config
from foundation.errors import HotlineError
from foundation.logs.collector import COLLECTOR, run_collector
from hosts.compiled_agents import require_compiled_agents
from hotline_machines.channel import (
    SILENCE_S,
    Channel,
    EndRequest,
    Farewell,
    Greeting,
    OperationAnswer,
    OperationCall,
    copy_both_ways,
    set_timeouts,
)
from hotline_machines.errors import MachineLost
from hotline_machines.security import server_context
from hotline_machines.supervisor.children import DIES_WITH_PARENT
from hotline_machines.supervisor.link import DISCARD, ECHO, discard, echo
from hotline_machines.supervisor.operations import Operations
from hotline_machines.supervisor.remains import WORK_FOLDERS
from topologies.agent_launcher import AGENTS_LOG, agent_launcher

END = "end"  # operation after which the supervisor ends
CONTROL, P4RUNTIME, WORKER = "control", "p4runtime", "worker-"
"""Purposes of a connection: the run's, and one to the switch's P4Runtime server or, with the number of a
`WorkerConnection`, to a script's worker."""
_CONNECT_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 30.0  # from the request of an end until this process ends by itself


class SupervisorSpec(BaseModel):
    model_config = ConfigDict(frozen=True)

    config: Config
    scheduler: str
    run: Path
    """Folder of the run on its own machine."""
    generation: int
    """Number of supervisors that the run has started before, on any machine."""
    token: str
    """Secret text that the client sends first on each connection; others are closed."""
    host: str
    """Address to listen at, by which dask reaches this machine."""
    ended_by: str | None = None
    """Command that ends `hotline up`; None for a run, which ends by itself."""


def shared_file_of(run: Path, token: str) -> Path:
    """Return the file by which a supervisor recognises that it sees the run's folder."""
    # Who can list the folder must not learn the token.
    return run / "logs" / f"shared-{hashlib.sha256(token.encode()).hexdigest()}"


def serve(spec: SupervisorSpec) -> None:
    asyncio.run(_serve(spec))


async def _serve(spec: SupervisorSpec) -> None:
    is_shared = shared_file_of(spec.run, spec.token).exists()
    shutil.rmtree(WORK_FOLDERS, ignore_errors=True)
    folder = spec.run if is_shared else WORK_FOLDERS / spec.run.name
    for name in ("parts", "logs"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    context = server_context(spec.scheduler)
    end_event = asyncio.Event()
    loop = asyncio.get_running_loop()
    fork_server = require_compiled_agents("a run on several machines").fork_server
    async with (
        agent_launcher(
            fork_server, spec.config.design, folder / "logs" / AGENTS_LOG, DIES_WITH_PARENT
        ) as launcher,
        run_collector(folder / "parts", COLLECTOR) as collector,
    ):
        connections = SupervisorConnections(spec, end_event)
        signal.signal(signal.SIGTERM, lambda number, frame: loop.call_soon_threadsafe(connections.terminate))
        loop.add_reader(sys.stdin.fileno(), _end_at_end_of_input, connections)
        operations = Operations(spec.config, folder, collector, launcher, connections.send)
        connections.operations = operations
        server = await asyncio.start_server(connections.accept, spec.host, 0, ssl=context)
        try:
            port = server.sockets[0].getsockname()[1]
            print(json.dumps({"port": port, "folder": str(folder), "pid": os.getpid()}), flush=True)
            timer = loop.call_later(_CONNECT_TIMEOUT_S, connections.end_unless_connected)
            await end_event.wait()
            timer.cancel()
        finally:
            # Not by the loop, at whose end it would end this process.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            server.close()
            await operations.end(is_shared)
            await connections.close()


def _end_at_end_of_input(connections: SupervisorConnections) -> None:
    if not os.read(sys.stdin.fileno(), 1):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        connections.end("dask's worker on it has ended")


class SupervisorConnections:
    """The connections of a supervisor. `end_event` is set when that of the run has ended."""

    operations: Operations

    def __init__(self, spec: SupervisorSpec, end_event: asyncio.Event) -> None:
        self._spec, self._end_event = spec, end_event
        self._channel: Channel | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, message: object) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def end(self, reason: str) -> None:
        self.send(Farewell(reason))
        self._end_event.set()

    def terminate(self) -> None:
        """End, after `hotline up` has ended in order if that is what this process is for."""
        reason = "its supervisor was terminated"
        if self._spec.ended_by is None or self._channel is None:
            self.end(reason)
        else:
            self.send(EndRequest())
            asyncio.get_running_loop().call_later(_END_TIMEOUT_S, self.end, reason)

    def end_unless_connected(self) -> None:
        if self._channel is None:
            self._end_event.set()

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            greeting = await asyncio.wait_for(reader.readline(), SILENCE_S)
            try:
                token, purpose = Greeting(**json.loads(greeting))
            except (ValueError, TypeError):
                return
            if not hmac.compare_digest(token.encode(), self._spec.token.encode()):
                return
            if purpose == CONTROL and self._channel is None:
                self._channel = Channel(reader, writer)
                await self._serve_run(self._channel)
            elif purpose == P4RUNTIME:
                set_timeouts(writer)
                port = self._spec.config.p4runtime_port
                await copy_both_ways(reader, writer, *await asyncio.open_connection("127.0.0.1", port))
            elif purpose.startswith(WORKER):
                set_timeouts(writer)
                number = int(purpose.removeprefix(WORKER))
                await self.operations.worker_sockets.carry(number, reader, writer)
            elif purpose == DISCARD:
                await discard(reader, writer)
            elif purpose == ECHO:
                await echo(reader, writer)
        except (OSError, asyncio.TimeoutError, ssl.SSLError, asyncio.CancelledError):
            pass  # the other end is gone, or this process ends
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve_run(self, channel: Channel) -> None:
        """Answer the run's calls, which may overtake one another, until the connection ends; then end all."""
        try:
            while True:
                call = await channel.receive()
                if call.operation == END:
                    return
                task = asyncio.ensure_future(self._answer(channel, call))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except MachineLost:
            pass
        finally:
            self._end_event.set()

    async def _answer(self, channel: Channel, call: OperationCall) -> None:
        try:
            operation = getattr(self.operations, call.operation)
            channel.send(OperationAnswer(call.number, await operation(**call.arguments)))
        except (HotlineError, OSError) as error:
            channel.send(OperationAnswer(call.number, None, error))
        except Exception as error:  # a defect must reach the run, which ends
            channel.send(OperationAnswer(call.number, None, MachineLost(f"{type(error).__name__}: {error}")))
