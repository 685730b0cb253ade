"""Subjects of schedules: a design in one of its arms, its workers' settings, and the check of its sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from foundation.designs.interface import Arm, Design
from foundation.protocol.header import WINDOW
from foundation.protocol.leaf_spine import LeafSpine
from hotline_allreduce.dense.client import DenseClient, Vector, VectorClient, error_bound
from hotline_allreduce.dense.packet import MAX_SIZE, MIN_SIZE, SIZE
from hotline_allreduce.psdense import design as psdense
from hotline_allreduce.ring import design as ring
from hotline_allreduce.simulation.schedule import ScheduleRange
from hotline_simulator.simulated_switch import SimulatedSwitch

STALL_TIMEOUT_NS = 100_000_000_000
"""Stall timeout in schedules. Frames are resent every second, so each arrives in time at any loss rate."""
RANGE = ScheduleRange(
    "dense", workers=(2, 2, 3, 4, 7), windows=(1, 2, 4, 64), chunk_sizes=(64, 64, 100), max_values=600
)


@dataclass(frozen=True, slots=True)
class Subject:
    design: Design
    arm: Arm
    range: ScheduleRange
    chunk_sizes: tuple[int, int]  # minimum and maximum number of values of a packet
    chunk_size: int  # default number of values of a packet
    load: Callable[[int, int], float]
    """(workers, servers): values that the busiest link carries in one direction, per value of the vector."""
    set_up: Callable[[VectorClient, int, int], None]
    """(client, window, chunk size): configure a worker's client while it is idle."""
    is_near: Callable[[Vector, Sequence[Vector]], bool]
    """Whether a result, float32[n], is the sum of vectors within the design's error bound."""
    stall_timeout_ns: int = STALL_TIMEOUT_NS
    """Time without progress after which a worker reports a stall, in schedules."""
    max_values: int | None = None  # maximum size of a vector in studies; None means unlimited
    max_window: int = WINDOW  # packets of a worker in flight
    occupy: Callable[[SimulatedSwitch, float], float] = lambda _switch, _share: 1.0
    """(switch, share): occupy a share of the switch's memory; return the share of a window that then fits."""
    leaves: int | None = None
    """Maximum number of leaves of a network, in schedules; None for one switch."""

    def network_of(self, workers: int, servers: int) -> LeafSpine | None:
        """Return the network of a schedule, which has a worker at each leaf."""
        return None if self.leaves is None else LeafSpine(workers, servers, min(self.leaves, workers))

    def is_sum(self, result: Vector, vectors: Sequence[Vector]) -> bool:
        if result.dtype == np.int32:
            with np.errstate(over="ignore"):
                return bool((result == np.sum(vectors, axis=0, dtype=np.int32)).all())
        return self.is_near(result, vectors)


def _set_up(client: VectorClient, window: int, chunk_size: int) -> None:
    assert isinstance(client, DenseClient)
    # All places of an idle client's window are free.
    client.state.header.window = client.state.header.n_free = window
    client.chunk_size = chunk_size


def _is_near(result: Vector, vectors: Sequence[Vector]) -> bool:
    exact_sum = np.sum(vectors, axis=0, dtype=np.float64)
    bound = error_bound(len(vectors), np.sum(np.abs(vectors), axis=0, dtype=np.float64))
    return bool((np.abs(result.astype(np.float64) - exact_sum) <= bound).all())


def _make_subject(design: Design, load: Callable[[int, int], float]) -> Subject:
    [arm] = design.arms
    return Subject(
        design,
        arm,
        RANGE,
        chunk_sizes=(MIN_SIZE, MAX_SIZE),
        chunk_size=SIZE,
        load=load,
        set_up=_set_up,
        is_near=_is_near,
    )


# The busiest link is a worker's cable, or a server's.
PSDENSE = _make_subject(psdense.DESIGN, lambda workers, servers: max(1.0, workers / servers))
# n - 1 of n parts, twice.
RING = _make_subject(ring.DESIGN, lambda workers, _servers: 2 * (workers - 1) / workers)
