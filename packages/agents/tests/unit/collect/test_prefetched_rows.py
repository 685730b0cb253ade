"""A server that collects prefetches the memory of a collection's rows, and changes none of it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from foundation.protocol.control import Command
from foundation.protocol.header import LANES
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace
from hotline_agents.collect.prefetch import prefetch_first_rows, prefetch_rows
from hotline_agents.collect.schedule import first_queue, row_at
from hotline_agents.collect.state import IDLE
from nativekit.plain import plain
from nativekit.prefetch import prefetch
from nativekit.records import CACHE_LINE_BYTES
from packages.agents.tests.unit.collect.test_collector import MINE, MS, Bench

SPACES = {
    "rows of 1": KeySpace(64),
    "rows of 16": KeySpace(64, None, (RowRange(0, 16),)),
}
_row_at, _first_queue = plain(row_at), plain(first_queue)


def lines_touched(function: Any, *arguments: Any) -> set[int]:
    seen: list[int] = []
    cast(Any, plain(function, {prefetch: seen.append}))(*arguments)
    return {address // CACHE_LINE_BYTES for address in seen}


def lines_of(array: np.ndarray[Any, Any]) -> set[int]:
    first = array.ctypes.data
    return set(range(first // CACHE_LINE_BYTES, (first + array.nbytes - 1) // CACHE_LINE_BYTES + 1))


@pytest.mark.parametrize("name", SPACES)
def test_a_collection_prefetches_rows_before_a_read_and_on_an_answer(name: str) -> None:
    bench, keys, dim = Bench(space=SPACES[name]), MINE[:6], SPACES[name].dims[0]
    bench.switch.hot.update(keys)
    bench.command(Command.SEED, keys)
    state = bench.ps.server.state
    before = [np.asarray(array).tobytes() for array in (state.cells, state.copies, state.last_sums)]
    queue = _first_queue(state, 0, 0)
    queued = [int(state.queues[q, 0].place) for q in range(queue, queue + LANES) if state.queue_sizes[q]]
    early = lines_touched(prefetch_first_rows, state, state.collections[0], 0, queue)
    assert queued
    for place in queued:
        assert lines_of(np.asarray(state.copies)[0, place : place + 1]) <= early
        assert lines_of(np.asarray(state.cells)[0, _row_at(state, place) :][: 1 + dim]) <= early
    bench.advance(60 * MS)
    collection = next(each for each in state.collections if each.phase != IDLE)
    touched = lines_touched(prefetch_rows, state, collection)
    for lane in np.flatnonzero([collection.live >> lane & 1 for lane in range(LANES)]):
        place = int(collection.places[lane])
        cell = _row_at(state, place)
        cells = slice(cell, cell + 1 + dim)
        for array in (np.asarray(state.cells), state.last_sums, state.collected):
            assert lines_of(array[0, cells]) <= touched
        assert lines_of(np.asarray(state.copies)[0, place : place + 1]) <= touched
    assert [np.asarray(array).tobytes() for array in (state.cells, state.copies)] == before[:2]
