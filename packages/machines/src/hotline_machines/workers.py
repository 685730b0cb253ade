"""Serve the rendezvous of a run to the workers of scripts on its machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from foundation.concurrency import gather_or_cancel
from hotline_machines.errors import MachineLost
from hotline_machines.remote import RemoteMachine
from hotline_machines.supervisor.server import WORKER
from topologies.testbed import WorkerService


class TranslatedWriter:
    """A `topologies.testbed.LineWriter` to a machine, which has the files of the run in another folder."""

    def __init__(self, writer: asyncio.StreamWriter, machine: RemoteMachine) -> None:
        self._writer, self._machine = writer, machine

    def write(self, data: bytes) -> None:
        self._writer.write(self._machine.translate(data))

    def is_closing(self) -> bool:
        return self._writer.is_closing()

    def close(self) -> None:
        self._writer.close()

    async def wait_closed(self) -> None:
        await self._writer.wait_closed()

    def get_extra_info(self, name: str) -> Any:
        """Return information about the transport, which has no type."""
        return self._writer.get_extra_info(name)


@asynccontextmanager
async def serve_workers(
    rendezvous: WorkerService, path: Path, ranks: Mapping[RemoteMachine, frozenset[int]]
) -> AsyncIterator[None]:
    """Serve a rendezvous at a socket of each machine, whose workers have these ranks."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(machine: RemoteMachine, number: int) -> None:
        with suppress(MachineLost):  # the worker's connection has ended with it
            reader, writer = await machine.open_stream(f"{WORKER}{number}")
            await rendezvous.serve_connection(reader, TranslatedWriter(writer, machine), ranks[machine])

    def start(machine: RemoteMachine, number: int) -> None:
        task = asyncio.ensure_future(serve(machine, number))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for machine in ranks:
        machine.on_worker[str(path)] = partial(start, machine)
    try:
        await gather_or_cancel(machine.call("listen", path=str(path)) for machine in ranks)
        yield
    finally:
        for machine in ranks:
            machine.on_worker.pop(str(path))
            machine.send("stop_listening", path=str(path))
        await rendezvous.close_connections()
        await asyncio.gather(*tasks, return_exceptions=True)
