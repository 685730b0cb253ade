"""The simulator's ledger has the sum of each value that was acknowledged, by a plain model."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges
from hosts.keys import KeySpace
from hotline_simulator.ledger import SimulatedPushLedger
from switch_harness.effort import examples

SIZE = 12
RANGES = (ONE_VALUE, (RowRange(0, 4),), (RowRange(0, 1), RowRange(3, 8), RowRange(9, 4)))


def dim_of(row: int, ranges: RowRanges) -> int:
    return next(each.dim for each in reversed(ranges) if each.first <= row)


@given(data=st.data(), ranges=st.sampled_from(RANGES))
@settings(max_examples=examples(100))
def test_sums_are_of_acknowledged_rows(data: st.DataObject, ranges: RowRanges) -> None:
    model = {(row, i): 0 for row in range(SIZE) for i in range(dim_of(row, ranges))}
    ledger, lanes = SimulatedPushLedger(KeySpace(SIZE, None, ranges)), 0
    workers = [ledger.for_worker() for _ in range(2)]
    for worker in data.draw(st.lists(st.sampled_from(workers), max_size=4)):
        rows = data.draw(st.lists(st.integers(0, SIZE - 1), unique=True))
        places = [(row, i) for row in rows for i in range(dim_of(row, ranges))]
        deltas = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(places), max_size=len(places)))
        acknowledged = data.draw(st.sets(st.sampled_from(rows))) if rows else set()
        flags = worker.open(np.array(rows, np.uint32), np.array(deltas, np.uint32))
        flags[:] = [row in acknowledged for row in rows]
        worker.close()
        lanes += len(acknowledged)
        for (row, i), delta in zip(places, deltas, strict=True):
            model[row, i] = (model[row, i] + delta * (row in acknowledged)) % 2**32
    assert ledger.sums.tolist() == list(model.values())
    assert ledger.lanes == lanes
