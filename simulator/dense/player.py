"""A schedule is played: real agents and the real program in virtual time, judged by the plain sum of the
vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import cast

import numpy as np

from foundation.designs.interface import NEVER
from hosts.worker.vectors import Vector, VectorClient
from simulator.dense.bed import COSTS, Bed, bed_of
from simulator.dense.schedule import Schedule
from simulator.dense.subject import Subject
from simulator.errors import SimulationError
from simulator.loop import ASKED, CROWDED, IS_FULL, LATE, awake, resume, run
from simulator.world import Simulated

_US = 1_000
_SECOND = 1_000_000_000


class Cell(Enum):
    """What came of a schedule."""

    EQUAL = "equal"
    """Every worker has every sum, bit for bit as the others."""
    STALLED = "stalled and reported"
    """No sum is wrong; some are not there, and every worker that lives and waits has said so in time."""
    WRONG = "wrong"
    """A worker has a sum that is not the sum, or not that of another."""
    SILENT = "stalled in silence"
    """Somebody waits, and does not say so."""


@dataclass
class Played:
    """A schedule under way, and what it came to."""

    subject: Subject
    schedule: Schedule
    bed: Bed
    vectors: list[list[Vector]]
    """Of each all-reduce, of each worker."""
    results: list[list[Vector]] = field(default_factory=list)
    """Of each worker, of each all-reduce that it has ended."""

    @property
    def cell(self) -> Cell:
        """What came of it."""
        for number, vectors in enumerate(self.vectors):
            results = [of_worker[number] for of_worker in self.results if number < len(of_worker)]
            is_one = all(each.tobytes() == results[0].tobytes() for each in results)
            if not (is_one and all(self.subject.is_sum(each, vectors) for each in results[:1])):
                return Cell.WRONG
        short = [w for w, of_worker in enumerate(self.results) if len(of_worker) < len(self.vectors)]
        living = [w for w in short if not self.bed.world.agents[w].dead]
        if all(self._has_reported(w) for w in living):
            return Cell.STALLED if short else Cell.EQUAL
        return Cell.SILENT

    def _has_reported(self, w: int) -> bool:
        """Within a second of its patience."""
        me = self.bed.network.clients[w].state.header
        return bool(me.stalled) and me.stalled_at - me.progress <= me.patience + _SECOND


def play(subject: Subject, schedule: Schedule) -> Played:
    """Play a schedule to its end."""
    bed = bed_of(subject, schedule.workers)
    bed.reset(schedule)
    played = Played(subject, schedule, bed, vectors_of(schedule), [[] for _ in range(schedule.workers)])
    for w in range(schedule.workers):
        awake(bed.network.pinned_ref, w)
    if schedule.killed_us is not None:
        _go_on(played, schedule.killed_us * _US)
        bed.world.agents[schedule.who].dead = 1
    if schedule.restarted_us is not None:
        _go_on(played, schedule.restarted_us * _US)
        bed.restart_switch()
    _go_on(played, NEVER)
    return played


def vectors_of(schedule: Schedule) -> list[list[Vector]]:
    """Of each all-reduce, of each worker."""
    chance = np.random.default_rng(schedule.seed)
    shape = (schedule.all_reduces, schedule.workers, schedule.values)
    if schedule.is_float:
        magnitudes = np.exp2(chance.integers(-20, 20, shape[:1]))[:, None, None]
        found = (chance.standard_normal(shape) * magnitudes).astype(np.float32)
    else:
        found = chance.integers(-(2**31), 2**31, shape, np.int32)
    return [list(each) for each in found]


def _go_on(played: Played, until: int) -> None:
    """Let everything happen before a time."""
    go_on(played.bed.network, lambda w: _ask(played, w), until)


def go_on(network: Simulated, ask: Callable[[int], None], until: int = NEVER) -> None:
    """Let everything happen before a time; `ask` is called with a worker that has ended what it did."""
    while True:
        reason = run(network.pinned_ref, until)
        w = int(network.world.me.who)
        if reason == ASKED:
            ask(w)
        elif reason == IS_FULL:
            network.clients[w].take_records()
        elif reason == CROWDED:
            network.make_room()
        else:
            break
    if reason == LATE and until == NEVER:
        raise SimulationError("something is always about to happen")


def _ask(played: Played, w: int) -> None:
    """Worker `w` has ended an all-reduce, or is to begin its first: it begins the next, if there is one."""
    network, done = played.bed.network, played.results[w]
    client = cast(VectorClient, network.clients[w])
    client.take_records()
    if client.rpcs_of_operation and len(done) < len(played.vectors):
        done.append(client.result.copy())
    at = network.now
    if len(done) < len(played.vectors):
        client.all_reduce(played.vectors[len(done)][w], played.schedule.workers)
        at += COSTS.begin_ns
    resume(network.pinned_ref, w, at, NEVER)
