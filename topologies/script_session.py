"""State of a rendezvous while the workers of scripts have a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from foundation.errors import HotlineError
from foundation.limits import WaitLimit
from topologies.embedding_tables import EmbeddingTables
from topologies.joined_worker import JoinedWorker


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
class WorkersSession:
    """The state from the first join until the last worker has left."""

    tables: EmbeddingTables
    terms: Terms
    joined_workers: dict[int, JoinedWorker] = field(default_factory=dict)
    taken_ranks: set[int] = field(default_factory=set)
    departure: str | None = None  # how the first worker left
    failure: str | None = None  # why no request can succeed any more
    # Ranks of the workers that wait at the barrier, and the event that releases each.
    barrier: list[tuple[int, asyncio.Future[None]]] = field(default_factory=list)
    setter_by_table: dict[str, int] = field(default_factory=dict)  # name -> rank of the worker that sets it
    set_events: dict[str, asyncio.Future[None]] = field(default_factory=dict)

    def fail_waiters(self, reason: str) -> None:
        futures = [*(future for _, future in self.barrier), *self.set_events.values()]
        for future in futures:
            if not future.done():
                future.set_exception(SessionOver(reason))
                future.exception()  # mark it as retrieved: it may have no waiter
        self.barrier.clear()
