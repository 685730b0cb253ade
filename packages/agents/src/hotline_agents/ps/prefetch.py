"""Prefetch what the next requests will read: first the index of their values, then the values.

Servers with many parameters wait for memory more than they compute. Prefetching changes no state, so requests
need not be validated before.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.header import LANES, SLOT_MASK
from foundation.protocol.rpc import Key, Rpc
from hotline_agents.ps.rpcs import CALLER, caller_at, find_job, hash_index_of
from hotline_agents.ps.share import HEAD_CELLS, LOG2_RANK_KEYS, RANK, Share, first_slot_of, locate, range_of
from hotline_agents.ps.values import CELL, ValuesState
from nativekit.bits import swap16, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.prefetch import prefetch, prefetch_lines

_KEY_BYTES, _WORD_BYTES = 8, 4
_LOG2_RANK_KEYS_U64 = np.uint64(LOG2_RANK_KEYS)
_CELL_BYTES, _RANK_BYTES, _CALLER_BYTES = CELL.itemsize, RANK.itemsize, CALLER.itemsize
_LOG2_CELL_BYTES = _CELL_BYTES.bit_length() - 1
assert CALLER.fields is not None
_TURNS_AT, _ADDED_AT = (int(CALLER.fields[name][1]) for name in ("turns", "added"))


@compiled
def prefetch_index(server: ValuesState, rpc: Rpc) -> None:
    _prefetch_caller(server, rpc)
    share, unserved_lanes, cells = server.share, _unserved_bitmap(rpc), _first_cell_address(server, rpc)
    n_lanes = min(int64(rpc.count), LANES)
    # A loop for each kind of share: one for all takes half as long again.
    if len(share.ranks):
        ranks = int64(share.ranks.ctypes.data)
        for lane in range(n_lanes):
            if unserved_lanes >> lane & 1:
                word = int64(swap64(rpc.keys[lane]) >> _LOG2_RANK_KEYS_U64)
                prefetch(ranks + word * _RANK_BYTES)
    elif len(share.table):
        table = int64(share.table.ctypes.data)
        for lane in range(n_lanes):
            if unserved_lanes >> lane & 1:
                key = swap64(rpc.keys[lane])
                rows = range_of(share, key)
                place = rows.first_place + first_slot_of(rows, key)
                prefetch(table + place * _KEY_BYTES)
                _prefetch_row(share, key, place, cells)  # without a collision the row has this place
    elif share.header.dim == 1:
        shift = share.header.log2_stride + _LOG2_CELL_BYTES
        for lane in range(n_lanes):
            if unserved_lanes >> lane & 1:
                prefetch(cells + (int64(swap64(rpc.keys[lane])) << shift))
    else:
        for lane in range(n_lanes):
            if unserved_lanes >> lane & 1:
                key = swap64(rpc.keys[lane])
                _prefetch_row(share, key, int64(key), cells)


@compiled
def prefetch_values(server: ValuesState, rpc: Rpc) -> None:
    if len(server.share.ranks) == 0:
        return  # `prefetch_index` has prefetched the values, too
    share, unserved_lanes, cells = server.share, _unserved_bitmap(rpc), _first_cell_address(server, rpc)
    n_lanes = min(int64(rpc.count), LANES)
    if share.header.dim == 1:
        shift = share.header.log2_stride + _LOG2_CELL_BYTES
        for lane in range(n_lanes):
            if unserved_lanes >> lane & 1:
                prefetch(cells + (locate(share, swap64(rpc.keys[lane])) << shift))
        return
    for lane in range(n_lanes):
        if unserved_lanes >> lane & 1:
            key = swap64(rpc.keys[lane])
            _prefetch_row(share, key, locate(share, key), cells)


@compiled
def _prefetch_row(share: Share, key: Key, place: int, cells: int) -> None:
    """Prefetch all lines of a row; a row of one value is in one line."""
    rows = range_of(share, key)
    row = rows.first_cell + (place - rows.first_place) * rows.stride
    prefetch_lines(cells + row * _CELL_BYTES, (HEAD_CELLS + rows.dim) * _CELL_BYTES)


@compiled
def _first_cell_address(server: ValuesState, rpc: Rpc) -> int:
    j = max(find_job(server, swap16(rpc.job)), 0)
    return int64(server.cells[j].ctypes.data)


@compiled
def _unserved_bitmap(rpc: Rpc) -> int:
    return swap32(int64(rpc.live) & ~int64(rpc.served))


@compiled
def _prefetch_caller(server: ValuesState, rpc: Rpc) -> None:
    index = hash_index_of(server.callers, swap16(rpc.job), caller_at(swap16(rpc.worker), swap16(rpc.ps)))
    row = int64(server.callers.ctypes.data) + index * _CALLER_BYTES
    slot = (swap32(rpc.seq) & SLOT_MASK) * _WORD_BYTES
    prefetch(row)
    prefetch(row + _TURNS_AT + slot)
    prefetch(row + _ADDED_AT + slot)
