"""ATP as a subject of fault schedules.

`python -m hotline_allreduce.atp.model.subject` prints the table of the page on ATP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import Arm
from hotline_allreduce.atp.agents import AtpClient
from hotline_allreduce.atp.design import DESIGN, settings_of
from hotline_allreduce.atp.packet import CELLS, MAX_SEQUENCE, VALUES
from hotline_allreduce.atp.worker import MAX_MAGNITUDE, SCALE
from hotline_allreduce.dense.client import Vector, VectorClient
from hotline_allreduce.simulation.player import table_command
from hotline_allreduce.simulation.schedule import FAULTS, ScheduleRange
from hotline_allreduce.simulation.subject import STALL_TIMEOUT_NS, Subject
from hotline_simulator.simulated_switch import SimulatedSwitch

RANGE = ScheduleRange(
    # Repeated numbers are drawn more often.
    "atp", workers=(2, 2, 3, 4, 8, 32), windows=(1, 2, 4, 8), chunk_sizes=(VALUES,), max_values=800,
    integer_bits=26,  # sums of 32 workers fit into 32 bits
    faults=tuple(FAULTS),
)  # fmt: skip
_ROUNDING = 2.0**-24  # largest relative error of a rounded float32
OTHER_OWNER = 0xFFFF0001  # job 0xFFFF, sequence number 1
PUBLISHED_TIMERS_STALL_NS = 2_000_000_000
"""Stall timeout with the published timers: short, as they resend 20 to 5,000 times a second."""


def subject_of(arm: Arm) -> Subject:
    """Return the subject of an arm, which may have other timers than the design's arms."""

    def set_up(client: VectorClient, window: int, chunk_size: int) -> None:
        if chunk_size != VALUES:
            raise ValueError(f"expected chunks of {VALUES} values, got {chunk_size}")
        assert isinstance(client, AtpClient)
        header = client.state.header
        header.window = header.n_free = window  # all places of an idle client's window are free
        header.published_timers = settings_of(arm).published_timers

    stall_timeout_ns = PUBLISHED_TIMERS_STALL_NS if settings_of(arm).published_timers else STALL_TIMEOUT_NS
    return Subject(
        DESIGN,
        arm,
        RANGE,
        chunk_sizes=(VALUES, VALUES),
        chunk_size=VALUES,
        load=lambda _workers, _servers: 1.0,  # a cable carries each value once
        set_up=set_up,
        is_near=_is_near,
        stall_timeout_ns=stall_timeout_ns,
        max_values=MAX_SEQUENCE * VALUES,
        occupy=occupy_cells,
    )


def with_published_timers(subject: Subject) -> Subject:
    settings = replace(settings_of(subject.arm), published_timers=True)
    return subject_of(replace(subject.arm, settings=settings))


def occupy_cells(switch: SimulatedSwitch, share: float) -> float:
    """Give another job a share of all cells; return 1.0: a window fits, as servers add what finds no cell."""
    rng = np.random.default_rng(1)
    for cell in rng.permutation(CELLS)[: round(share * CELLS)].tolist():
        switch.pipeline.cells.write_register("HotlineIngress.claim.owners", cell, OTHER_OWNER)
    return 1.0


def _is_near(result: Vector, vectors: Sequence[Vector]) -> bool:
    bound = error_bound(np.abs(vectors).astype(np.float64))
    exact_sum = np.sum(vectors, axis=0, dtype=np.float64)
    with np.errstate(invalid="ignore"):  # integers that are read as floats may be NaN
        return bool((np.abs(result.astype(np.float64) - exact_sum) <= bound).all())


def error_bound(magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest error, [n], of sums of floats with absolute values `magnitudes` [workers, n].

    An addend of at most `MAX_MAGNITUDE` may be rounded to a multiple of 1 / `SCALE`, and its product with
    `SCALE` to 24 bits. The sum is rounded to 24 bits, as an integer's quotient or at each addition.
    """
    workers = len(magnitudes)
    integer_magnitudes = np.minimum(magnitudes, MAX_MAGNITUDE)
    rounding = _ROUNDING * (integer_magnitudes.sum(axis=0) + workers * magnitudes.sum(axis=0))
    # The factor 2 covers products of these errors.
    bound: NDArray[np.float64] = workers * 0.5 / SCALE + 2 * rounding
    return bound


PUBLISHED, CHECKED = map(subject_of, DESIGN.arms)
main = table_command([PUBLISHED, CHECKED])

if __name__ == "__main__":
    main()
