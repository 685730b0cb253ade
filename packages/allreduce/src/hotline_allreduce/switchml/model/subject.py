"""SwitchML as a `Subject` of fault schedules.

`python -m hotline_allreduce.switchml.model.subject` prints the table of the page on SwitchML.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from foundation.designs.interface import Arm, Design
from hotline_allreduce.dense.client import Vector, VectorClient
from hotline_allreduce.simulation.player import table_command
from hotline_allreduce.simulation.schedule import ScheduleRange
from hotline_allreduce.simulation.subject import Subject
from hotline_allreduce.switchml.agents import SwitchMLClient
from hotline_allreduce.switchml.design import DESIGN, LARGE_PACKET_DESIGN, settings_of
from hotline_allreduce.switchml.packet import MAX_VALUES, VALUES
from hotline_allreduce.switchml.window import MAX_WINDOW
from hotline_allreduce.switchml.worker import MIN_EXPONENT, error_bound

RANGE = ScheduleRange(
    "switchml", workers=(2, 2, 3, 4), windows=(1, 2, 4, 8), chunk_sizes=(VALUES,), max_values=800
)


LARGE_PACKET_RANGE = replace(RANGE, name="switchml-1024", chunk_sizes=(MAX_VALUES,), max_values=3_200)


def subject_of(arm: Arm, design: Design = DESIGN, values: int = VALUES) -> Subject:
    """Return SwitchML with packets of the given number of values."""

    def set_up(client: VectorClient, window: int, chunk_size: int) -> None:
        assert isinstance(client, SwitchMLClient)
        if chunk_size != client.state.header.words:
            raise ValueError(f"expected chunks of {client.state.header.words} values, got {chunk_size}")
        client.state.header.window = window
        client.state.header.published_timers = settings_of(arm).published_timers

    return Subject(
        design,
        arm,
        RANGE if values == VALUES else LARGE_PACKET_RANGE,
        chunk_sizes=(values, values),
        chunk_size=values,
        max_window=MAX_WINDOW,
        load=lambda _workers, _servers: 1.0,
        set_up=set_up,
        is_near=lambda result, vectors: _is_near(result, vectors, values),
        occupy=lambda _switch, share: 1 - share,
    )


def with_published_timers(subject: Subject) -> Subject:
    settings = replace(settings_of(subject.arm), published_timers=True)
    return subject_of(replace(subject.arm, settings=settings))


def _is_near(result: Vector, vectors: Sequence[Vector], values: int) -> bool:
    exact_sum = np.asarray(np.sum(vectors, axis=0, dtype=np.float64))
    magnitudes = np.asarray(np.sum(np.abs(vectors), axis=0, dtype=np.float64))
    for first in range(0, len(result), values):
        part = slice(first, first + values)
        max_magnitude = max(float(np.abs(vector[part]).max()) for vector in vectors)
        exponent = max(int(np.frexp(max_magnitude)[1]), MIN_EXPONENT) if max_magnitude else MIN_EXPONENT
        bound = error_bound(exponent, len(vectors), float(magnitudes[part].max()))
        if (np.abs(result[part].astype(np.float64) - exact_sum[part]) > bound).any():
            return False
    return True


PUBLISHED, CHECKED = map(subject_of, DESIGN.arms)
LARGE_PACKETS, LARGE_PACKETS_CHECKED = (
    subject_of(arm, LARGE_PACKET_DESIGN, MAX_VALUES) for arm in DESIGN.arms
)
main = table_command([PUBLISHED, CHECKED])

if __name__ == "__main__":
    main()
