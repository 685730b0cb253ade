"""Prefetch the memory that a worker will read and write for its next calls, and for an answer.

In a simulation many workers take turns, and their state is larger than a cache. Real workers do not prefetch,
as the state of one operation fits into the cache.
"""

from __future__ import annotations

from foundation.logs.rpc_row import ROW
from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, SLOT_MASK, VALUE_BYTES
from foundation.protocol.rpc import BUFFER_BYTES, PUSH, Rpc
from hotline_agents.hotset.worker.state import CALL, Calls, home_to_send
from hotline_agents.interface import NOTHING
from hotline_agents.worker.rpcs import row_start
from hotline_agents.worker.window import SLOT
from nativekit.bits import swap32
from nativekit.compile import compiled, int64
from nativekit.prefetch import prefetch, prefetch_lines

_SLOT_BYTES, _CALL_BYTES, _ROW_BYTES = SLOT.itemsize, CALL.itemsize, ROW.itemsize


@compiled
def prefetch_next(state: Calls) -> None:
    header, home = state.header, home_to_send(state)
    if home == NOTHING:
        return
    window = state.windows[home]
    call = state.calls[window.first_unsent]
    row_bytes = call.dim * VALUE_BYTES
    keys, deltas, is_push = int64(state.keys.ctypes.data), int64(state.deltas.ctypes.data), header.op == PUSH
    for lane in range(call.count):
        i = int64(call.key_at[lane])  # stale if the lane is not live, which is harmless
        prefetch(keys + i * KEY_BYTES)
        if is_push:
            prefetch_lines(deltas + row_start(state, i) * VALUE_BYTES, row_bytes)
    s = int64(state.free[window.first_slot + window.n_free - 1]) & SLOT_MASK
    n_bytes = HEADER_BYTES + call.count * (KEY_BYTES + row_bytes)
    prefetch_lines(int64(state.sent.ctypes.data) + s * BUFFER_BYTES, n_bytes)
    if call.next != NOTHING:
        prefetch_lines(int64(state.calls.ctypes.data) + call.next * _CALL_BYTES, _CALL_BYTES)


@compiled
def prefetch_index(state: Calls, rpc: Rpc) -> None:
    # First, for an answer: its slot, the request, and the next row of the log.
    s = swap32(rpc.seq) & SLOT_MASK
    prefetch(int64(state.slots.ctypes.data) + s * _SLOT_BYTES)
    prefetch(int64(state.sent.ctypes.data) + s * BUFFER_BYTES)
    prefetch(int64(state.log.ctypes.data) + state.header.rows * _ROW_BYTES)


@compiled
def prefetch_values(state: Calls, rpc: Rpc) -> None:
    # Later, once the slot is in the cache: the call that the slot refers to.
    call = state.slots[swap32(rpc.seq) & SLOT_MASK].call
    prefetch_lines(int64(state.calls.ctypes.data) + call * _CALL_BYTES, _CALL_BYTES)
