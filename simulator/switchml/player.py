"""A schedule is played: real agents and the real program in virtual time, judged by the plain sum of the
vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER, Arm
from hosts.switchml.floats import LEAST_EXPONENT, error_bound
from hosts.switchml.packet import VALUES
from simulator.errors import SimulationError
from simulator.loop import ASKED, CROWDED, IS_FULL, LATE, awake, resume, run
from simulator.switchml.bed import COSTS, Bed, bed_of
from simulator.switchml.schedule import Schedule

_US = 1_000
_SECOND = 1_000_000_000

Vector = NDArray[Any]


class Cell(Enum):
    """What came of a schedule."""

    EQUAL = "equal"
    """Every worker has every sum."""
    STALLED = "stalled and reported"
    """No sum is wrong; some are not there, and every worker that lives and waits has said so in time."""
    WRONG = "wrong"
    """A worker has a sum that is not the sum."""
    SILENT = "stalled in silence"
    """Somebody waits, and does not say so."""


@dataclass
class Played:
    """A schedule under way, and what it came to."""

    schedule: Schedule
    bed: Bed
    vectors: list[list[Vector]]
    """Of each all-reduce, of each worker."""
    results: list[list[Vector]] = field(default_factory=list)
    """Of each worker, of each all-reduce that it has ended."""

    @property
    def cell(self) -> Cell:
        """What came of it."""
        for of_worker in self.results:
            for result, vectors in zip(of_worker, self.vectors, strict=False):
                if not is_sum(result, vectors):
                    return Cell.WRONG
        waiting = [
            w
            for w, of_worker in enumerate(self.results)
            if len(of_worker) < len(self.vectors) and not self.bed.world.agents[w].dead
        ]
        is_short = any(len(each) < len(self.vectors) for each in self.results)
        if all(self._has_reported(w) for w in waiting):
            return Cell.STALLED if is_short else Cell.EQUAL
        return Cell.SILENT

    def _has_reported(self, w: int) -> bool:
        """Within a second of its patience."""
        me = self.bed.network.clients[w].state.me
        return bool(me.stalled) and me.stalled_at - me.progress <= me.patience + _SECOND


def is_sum(result: Vector, vectors: list[Vector]) -> bool:
    """Whether a result is the sum of vectors: of integers exactly, of floats within the format's bound."""
    if result.dtype == np.int32:
        with np.errstate(over="ignore"):
            return bool((result == np.sum(vectors, axis=0, dtype=np.int32)).all())
    exact = np.asarray(np.sum(vectors, axis=0, dtype=np.float64))
    sizes = np.asarray(np.sum(np.abs(vectors), axis=0, dtype=np.float64))
    for first in range(0, len(result), VALUES):
        part = slice(first, first + VALUES)
        largest = max(float(np.abs(vector[part]).max()) for vector in vectors)
        exponent = max(int(np.frexp(largest)[1]), LEAST_EXPONENT) if largest else LEAST_EXPONENT
        bound = error_bound(exponent, len(vectors), float(sizes[part].max()))
        if (np.abs(result[part].astype(np.float64) - exact[part]) > bound).any():
            return False
    return True


def play(schedule: Schedule, arm: Arm) -> Played:
    """Play a schedule in an arm, to its end."""
    bed = bed_of(arm, schedule.workers)
    bed.reset(schedule)
    played = Played(schedule, bed, list(_vectors(schedule)), [[] for _ in range(schedule.workers)])
    for w in range(schedule.workers):
        awake(bed.network.lent, w)
    if schedule.killed_us is not None:
        _go_on(played, schedule.killed_us * _US)
        bed.world.agents[schedule.who].dead = 1
    if schedule.restarted_us is not None:
        _go_on(played, schedule.restarted_us * _US)
        bed.restart_switch()
    _go_on(played, NEVER)
    return played


def _vectors(schedule: Schedule) -> list[list[Vector]]:
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
    while True:
        reason = run(played.bed.network.lent, until)
        w = int(played.bed.network.world.me.who)
        if reason == ASKED:
            _ask(played, w)
        elif reason == IS_FULL:
            played.bed.network.clients[w].take_records()
        elif reason == CROWDED:
            played.bed.network.make_room()
        else:
            break
    if reason == LATE and until == NEVER:
        raise SimulationError("something is always about to happen")


def _ask(played: Played, w: int) -> None:
    """Worker `w` has ended an all-reduce, or is to begin its first: it begins the next, if there is one."""
    network, client, done = played.bed.network, played.bed.network.clients[w], played.results[w]
    client.take_records()
    if client.idle and client.rpcs_of_operation and len(done) < len(played.vectors):
        done.append(client.result.copy())
    at, until = network.now, NEVER
    if client.idle and len(done) < len(played.vectors):
        client.all_reduce(played.vectors[len(done)][w], played.schedule.workers)
        at += COSTS.begin_ns
    resume(network.lent, w, at, until)
