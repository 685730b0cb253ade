"""Prefetch what the next requests will read: first the index of their values, then the values.

Servers with many parameters wait for memory more than they compute. Prefetching changes no state, so requests
need not be validated before.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.header import LANES, SLOT_MASK
from foundation.protocol.rpc import Rpc
from hosts.ps.rpcs import CALLER, find_job, hash_index_of
from hosts.ps.share import LOG2_RANK_KEYS, RANK, first_slot_of, locate
from hosts.ps.values import CELL, ValuesState
from nativekit.bits import swap16, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.prefetch import prefetch

_KEY_BYTES, _WORD_BYTES = 8, 4
_LOG2_RANK_KEYS_U64 = np.uint64(LOG2_RANK_KEYS)
_CELL_BYTES, _RANK_BYTES, _CALLER_BYTES = CELL.itemsize, RANK.itemsize, CALLER.itemsize
assert CALLER.fields is not None
_TURNS_AT, _ADDED_AT = (int(CALLER.fields[name][1]) for name in ("turns", "added"))


@compiled
def prefetch_index(server: ValuesState, rpc: Rpc) -> None:
    _prefetch_caller(server, rpc)
    share, unserved_lanes, cells = server.share, _unserved_bitmap(rpc), _first_cell_address(server, rpc)
    ranks, table = int64(share.ranks.ctypes.data), int64(share.table.ctypes.data)
    parameter_bytes = int64(server.header.width) * _CELL_BYTES
    for lane in range(min(int64(rpc.count), LANES)):
        if unserved_lanes >> lane & 1:
            key = swap64(rpc.keys[lane])
            if len(share.table):  # without a collision the cell has the same index
                slot = first_slot_of(share, key)
                prefetch(table + slot * _KEY_BYTES)
                prefetch(cells + slot * parameter_bytes)
            elif len(share.ranks):
                prefetch(ranks + int64(key >> _LOG2_RANK_KEYS_U64) * _RANK_BYTES)
            else:
                prefetch(cells + int64(key) * parameter_bytes)


@compiled
def prefetch_values(server: ValuesState, rpc: Rpc) -> None:
    if len(server.share.ranks) == 0:
        return  # `prefetch_index` has prefetched the values, too
    unserved_lanes, cells = _unserved_bitmap(rpc), _first_cell_address(server, rpc)
    parameter_bytes = int64(server.header.width) * _CELL_BYTES
    for lane in range(min(int64(rpc.count), LANES)):
        if unserved_lanes >> lane & 1:
            prefetch(cells + locate(server.share, swap64(rpc.keys[lane])) * parameter_bytes)


@compiled
def _first_cell_address(server: ValuesState, rpc: Rpc) -> int:
    j = max(find_job(server, swap16(rpc.job)), 0)
    return int64(server.cells[j].ctypes.data)


@compiled
def _unserved_bitmap(rpc: Rpc) -> int:
    return int64(swap32(int64(rpc.live) & ~int64(rpc.served)))


@compiled
def _prefetch_caller(server: ValuesState, rpc: Rpc) -> None:
    index = hash_index_of(server.callers, swap16(rpc.job), swap16(rpc.worker), swap32(rpc.epoch))
    row = int64(server.callers.ctypes.data) + index * _CALLER_BYTES
    slot = (swap32(rpc.seq) & SLOT_MASK) * _WORD_BYTES
    prefetch(row)
    prefetch(row + _TURNS_AT + slot)
    prefetch(row + _ADDED_AT + slot)
