"""Prefetch the rows of a collection: a server would wait for their memory once a row, and now waits once.

A row's copy, its cells, and the sums beside them are in four places of memory, and hot rows are spread over
all of it. Prefetching changes no state.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.header import LANES
from hotline_agents.collect.schedule import row_at
from hotline_agents.collect.state import Collection, CollectServer, Copy
from hotline_agents.ps.share import HEAD_CELLS, LOG2_RANK_KEYS, RANK
from hotline_agents.ps.values import CELL_BYTES
from nativekit.compile import compiled, int64
from nativekit.prefetch import prefetch, prefetch_lines
from nativekit.records import dtype_of

_COPY_BYTES, _RANK_BYTES = dtype_of(Copy).itemsize, RANK.itemsize
_LOG2_RANK_KEYS_U64 = np.uint64(LOG2_RANK_KEYS)


@compiled
def prefetch_rows(server: CollectServer, collection: Collection) -> None:
    """Prefetch what the answer to a read, or to a SET, changes."""
    e, octets = collection.exchange, (HEAD_CELLS + server.dims[collection.group]) * CELL_BYTES
    sums = int64(server.last_sums[e].ctypes.data), int64(server.collected[e].ctypes.data)
    ranks = int64(server.share.ranks.ctypes.data)
    for lane in range(collection.count):
        if collection.live >> lane & 1:
            place = int64(collection.places[lane])
            prefetch_row(server, collection, place, octets)
            cell = row_at(server, place) * CELL_BYTES
            prefetch_lines(sums[0] + cell, octets)
            prefetch_lines(sums[1] + cell, octets)
            if len(server.share.ranks):
                prefetch(ranks + int64(collection.keys[lane] >> _LOG2_RANK_KEYS_U64) * _RANK_BYTES)


@compiled
def prefetch_first_rows(server: CollectServer, collection: Collection, group: int, first: int) -> None:
    """Prefetch the rows that are due first in the queues of all lanes, of which `first` is lane 0's."""
    octets = (HEAD_CELLS + server.dims[group]) * CELL_BYTES
    for q in range(first, first + LANES):
        if server.queue_sizes[q]:
            prefetch_row(server, collection, int64(server.queues[q, 0].place), octets)


@compiled
def prefetch_row(server: CollectServer, collection: Collection, place: int, octets: int) -> None:
    copy = int64(server.copies[collection.exchange].ctypes.data) + place * _COPY_BYTES
    prefetch(copy)
    prefetch(copy + _COPY_BYTES - 1)  # a copy may be in two lines
    prefetch_lines(
        int64(server.cells[collection.job].ctypes.data) + row_at(server, place) * CELL_BYTES, octets
    )
