"""State of a rendezvous while the workers of scripts have a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foundation.errors import HotlineError
from foundation.limits import WaitLimit
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.joined_worker import JoinedWorker


class SessionOver(HotlineError):
    """A request that cannot succeed in this session any more."""


@dataclass(frozen=True, slots=True)
class Terms:
    job: int
    epoch: int
    design: str
    window: int
    servers: list[tuple[str, int]]
    workers: list[tuple[str, int]]
    arm: str
    seed: int
    parts: str | None = None
    """Folder of the workers' logs; None outside a run. In a run, workers hold back calls between blocks."""


class Backend(Protocol):
    @property
    def size(self) -> int: ...

    async def begin(self, tables: EmbeddingTables) -> Terms:
        """Start servers with the parameters of tables, all 0; raise `HotlineError` on failure."""
        ...

    async def end(self) -> None:
        """End the servers; the next session starts others. Raise `HotlineError` on failure."""
        ...

    def limit_silence(self, servers: Sequence[int]) -> WaitLimit | None:
        """Begin a wait for servers that do not answer a worker; None if a run limits it elsewhere."""
        ...

    async def publish(self) -> None:
        """Have pulls return all updates that are acknowledged by now; raise `HotlineError` on failure."""
        ...


@dataclass(eq=False, slots=True)
class BarrierRound:
    """The requests that wait at the barrier, and the event that answers all of them."""

    release: asyncio.Future[None]
    waiting: list[int] = field(default_factory=list)
    """The rank of each request that waits; several threads of a worker may wait."""
    release_task: asyncio.Future[None] | None = None  # exists as soon as all ranks wait: they have passed


@dataclass(frozen=True, slots=True)
class TableSetting:
    """The setting of a table to its first values."""

    setter: int  # rank of the worker that sets it
    event: asyncio.Future[None]


@dataclass(eq=False, slots=True)
class WorkersSession:
    """The state from the first join until the last worker has left."""

    tables: EmbeddingTables
    terms: Terms
    joined_workers: dict[int, JoinedWorker] = field(default_factory=dict)
    taken_ranks: set[int] = field(default_factory=set)
    departure: str | None = None  # how the first worker left
    failure: str | None = None  # why no request can succeed any more
    barrier: BarrierRound | None = None  # None while no worker waits
    settings_by_table: dict[str, TableSetting] = field(default_factory=dict)

    def describe_barrier(self, size: int) -> str:
        present_ranks = set() if self.barrier is None else set(self.barrier.waiting)
        states = (
            f"worker {rank} ({'has not called it' if rank in self.taken_ranks else 'has not joined'})"
            for rank in range(size)
            if rank not in present_ranks
        )
        return f"barrier: waits for {', '.join(states)}"

    def fail_waiters(self, reason: str) -> None:
        futures = [setting.event for setting in self.settings_by_table.values()]
        if self.barrier is not None:
            futures.append(self.barrier.release)
            if self.barrier.release_task is not None:
                self.barrier.release_task.cancel()
            self.barrier = None
        for future in futures:
            if not future.done():
                future.set_exception(SessionOver(reason))
                future.exception()  # mark it as retrieved: it may have no waiter
