"""State of a rendezvous while the workers of scripts have a session."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from experiment.worker_plan import AfterDeath
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
    pushes: Mapping[str, int] | None = None
    """Table -> pushes before the checkpoint whose values the tables have; None if they are 0."""


class Backend(Protocol):
    @property
    def size(self) -> int: ...

    @property
    def after_death(self) -> AfterDeath: ...

    async def begin(self, tables: EmbeddingTables) -> Terms:
        """Start servers with the values of tables, 0 or a checkpoint's; raise `HotlineError` on failure."""
        ...

    async def admit(self, rank: int, epoch: int) -> None:
        """Have the switch take RPCs of a rank's new worker, by its epoch, and no more of earlier ones.

        Raise `HotlineError` on failure.
        """
        ...

    async def end(self, pushes: Mapping[str, int] | None) -> None:
        """End the servers; the next session starts others. Raise `HotlineError` on failure.

        `pushes` are those of `WorkersSession.complete_pushes`.
        """
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
    waiting: list[JoinedWorker] = field(default_factory=list)
    """The worker of each request that waits; several threads of a worker may wait."""
    release_task: asyncio.Future[None] | None = None  # exists as soon as all ranks wait: they have passed


_CHECKPOINT = -1  # sets tables in the place of a rank


@dataclass(frozen=True, slots=True)
class TableSetting:
    """The setting of a table to its first values."""

    setter: int  # rank of the worker that sets it
    is_set: asyncio.Future[bool]
    """False if the setter has gone before the table was set, and another worker is to set it."""

    @property
    def has_succeeded(self) -> bool:
        return self.is_set.done() and self.is_set.exception() is None and self.is_set.result()


@dataclass(eq=False, slots=True)
class WorkersSession:
    """The state from the first join until the last worker has left, and no successor is waited for.

    After a worker's death, with `after_death` "end" nobody can go on; with "wait" its rank is free for a
    successor, for which barriers wait; with "continue" barriers wait for the others alone. A worker that
    leaves in order has its place in "continue" only for as long as it is there, too.
    """

    tables: EmbeddingTables
    terms: Terms
    size: int
    after_death: AfterDeath
    joined_workers: dict[int, JoinedWorker] = field(default_factory=dict)
    taken_ranks: set[int] = field(default_factory=set)
    lives: Counter[int] = field(default_factory=Counter)
    """Rank -> number of workers that have had it: each has an epoch of its own."""
    vacant_ranks: set[int] = field(default_factory=set)
    """Ranks of dead workers that no other worker has, with "wait"."""
    uncounted_ranks: set[int] = field(default_factory=set)
    """Ranks of workers that have left, which barriers do not wait for, with "continue"."""
    departure: str | None = None  # how the first worker left for which all others would wait in vain
    failure: str | None = None  # why no request can succeed any more
    barrier: BarrierRound | None = None  # None while no worker waits
    settings_by_table: dict[str, TableSetting] = field(default_factory=dict)
    pushes: Counter[str] = field(default_factory=Counter)
    """Table with an optimiser -> pushes of the worker that has made most, with those before a checkpoint."""

    def mark_restored(self, pushes: Mapping[str, int]) -> None:
        """Mark all tables as set, by no worker; must run in an event loop."""
        for name in self.tables:
            self.find_setting(name, _CHECKPOINT).is_set.set_result(True)
        self.count_pushes(pushes)

    @property
    def complete_pushes(self) -> Mapping[str, int] | None:
        """The pushes to tables; None if a table has not been set, or the model is lost."""
        return None if self.unset_tables or self.failure else dict(self.pushes)

    @property
    def unset_tables(self) -> list[str]:
        settings = {name: self.settings_by_table.get(name) for name in self.tables}
        return [name for name, setting in settings.items() if setting is None or not setting.has_succeeded]

    def count_pushes(self, pushes: Mapping[str, int]) -> None:
        for name, count in pushes.items():
            self.pushes[self.tables.find_table(name).name] = max(self.pushes[name], int(count))

    @property
    def is_over(self) -> bool:
        return not (self.joined_workers or self.vacant_ranks)

    @property
    def is_barrier_complete(self) -> bool:
        return self.barrier is not None and not self._missing_at_barrier(self.barrier)

    def _missing_at_barrier(self, barrier: BarrierRound) -> set[int]:
        # A request of a worker that has left does not stand for the next one with its rank.
        waiting = {each.rank for each in barrier.waiting if self.joined_workers.get(each.rank) is each}
        return set(range(self.size)) - self.uncounted_ranks - waiting

    def find_setting(self, table: str, rank: int) -> TableSetting:
        """Return who sets a table: this rank, if no worker was to set it."""
        if table not in self.settings_by_table:
            is_set: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self.settings_by_table[table] = TableSetting(rank, is_set)
        return self.settings_by_table[table]

    def begin_life(self, rank: int) -> int:
        """Count a new worker of a rank; return its number, 0 for the first."""
        self.lives[rank] += 1
        return self.lives[rank] - 1

    def epoch_of(self, worker: JoinedWorker) -> int:
        """Return the epoch of a worker's RPCs, later than that of all before it with its rank."""
        return self.terms.epoch + worker.life

    def add(self, worker: JoinedWorker) -> None:
        self.taken_ranks.add(worker.rank)
        self.vacant_ranks.discard(worker.rank)
        self.uncounted_ranks.discard(worker.rank)
        self.joined_workers[worker.rank] = worker

    def remove(self, worker: JoinedWorker, abnormal_end: str | None) -> None:
        """Remove a worker; `abnormal_end` says how it ended if it did not leave in order."""
        del self.joined_workers[worker.rank]
        if self.after_death == "end" or (self.after_death == "wait" and abnormal_end is None):
            self._end_for_all(worker, abnormal_end)
            return
        self.taken_ranks.discard(worker.rank)
        (self.vacant_ranks if self.after_death == "wait" else self.uncounted_ranks).add(worker.rank)
        for name, setting in [*self.settings_by_table.items()]:
            if setting.setter == worker.rank and not setting.is_set.done():
                del self.settings_by_table[name]
                setting.is_set.set_result(False)

    def _end_for_all(self, worker: JoinedWorker, abnormal_end: str | None) -> None:
        self.departure = self.departure or f"worker {worker.rank} {abnormal_end or 'has left'}"
        if abnormal_end is None:
            self.fail_waiters(
                f"{self.departure}, and is not waited for; let all workers call barrier equally often"
            )
        else:
            self.fail_waiters(f"{self.departure}; close this worker, and start all of them again")

    def describe_end(self, worker: JoinedWorker) -> str:
        """Return what follows for the others from a worker's death."""
        return {
            "end": "",
            "wait": f"; the others wait for a worker with rank={worker.rank}",
            "continue": "; the others go on",
        }[self.after_death]

    def describe_barrier(self) -> str:
        missing = set() if self.barrier is None else self._missing_at_barrier(self.barrier)
        states = (f"worker {rank} ({self._describe_rank(rank)})" for rank in sorted(missing))
        return f"barrier: waits for {', '.join(states)}"

    def _describe_rank(self, rank: int) -> str:
        if rank in self.vacant_ranks:
            return "has ended, and no other has its rank"
        return "has not called it" if rank in self.taken_ranks else "has not joined"

    def fail_waiters(self, reason: str) -> None:
        futures: list[asyncio.Future[None] | asyncio.Future[bool]] = [
            setting.is_set for setting in self.settings_by_table.values()
        ]
        if self.barrier is not None:
            futures.append(self.barrier.release)
            if self.barrier.release_task is not None:
                self.barrier.release_task.cancel()
            self.barrier = None
        for future in futures:
            if not future.done():
                future.set_exception(SessionOver(reason))
                future.exception()  # mark it as retrieved: it may have no waiter
