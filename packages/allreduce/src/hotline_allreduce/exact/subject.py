"""`exact` as a `Subject` of fault schedules, with addends of which many sums take a second pass.

`python -m hotline_allreduce.exact.subject` prints the counts of schedules, as for the other designs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hotline_allreduce.dense.client import Vector, VectorClient
from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.design import DESIGN, EXACT
from hotline_allreduce.exact.reference import correctly_rounded_sums
from hotline_allreduce.exact.worker import FLOATS_A_CHUNK
from hotline_allreduce.simulation.player import table_command
from hotline_allreduce.simulation.schedule import ALL_REDUCE_FAULTS, LATER_KILLS, ScheduleRange
from hotline_allreduce.simulation.subject import Subject
from hotline_allreduce.switchml.window import MAX_WINDOW

RANGE = ScheduleRange(
    "exact",
    workers=(2, 2, 3, 4),
    windows=(1, 2, 4, 8),
    chunk_sizes=(FLOATS_A_CHUNK,),
    max_values=400,
    faults=(*ALL_REDUCE_FAULTS, *LATER_KILLS),
    octaves=90,
)


def _set_up(client: VectorClient, window: int, chunk_size: int) -> None:
    if chunk_size != FLOATS_A_CHUNK:
        raise ValueError(f"expected chunks of {FLOATS_A_CHUNK} values, got {chunk_size}")
    assert isinstance(client, ExactClient)
    client.state.header.window = window


def _is_correctly_rounded(result: Vector, vectors: Sequence[Vector]) -> bool:
    expected = correctly_rounded_sums([np.asarray(vector, np.float32) for vector in vectors])
    return bool((result.view(np.uint32) == expected.view(np.uint32)).all())


SUBJECT = Subject(
    DESIGN,
    EXACT,
    RANGE,
    chunk_sizes=(FLOATS_A_CHUNK, FLOATS_A_CHUNK),
    chunk_size=FLOATS_A_CHUNK,
    max_window=MAX_WINDOW,
    load=lambda _workers, _servers: 1.0,
    set_up=_set_up,
    is_near=_is_correctly_rounded,
    occupy=lambda _switch, share: 1 - share,
)
main = table_command([SUBJECT])

if __name__ == "__main__":
    main()
