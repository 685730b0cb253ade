"""Calls, one RPC each: allocated, filled with keys, and queued until a slot of the window is free."""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from hosts.hotset.worker.state import Calls
from nativekit.compile import compiled, int64

NOT_REFUSED = 0  # number of refusals of a key that is sent for the first time


@compiled
def new_call(state: Calls, ps: int, refusals: int) -> int:
    header = state.header
    header.n_spare_calls -= 1
    c = int64(state.spare_calls[header.n_spare_calls])
    call = state.calls[c]
    call.ps, call.count, call.live, call.hashed, call.refusals, call.next = ps, 0, 0, 0, refusals, NOTHING
    call.queried_seq = 0
    return c


@compiled
def drop_call(state: Calls, c: int) -> None:
    state.spare_calls[state.header.n_spare_calls] = c
    state.header.n_spare_calls += 1


@compiled
def place_key(state: Calls, i: int, c: int, lane: int) -> None:
    call = state.calls[c]
    call.key_at[lane] = i
    call.live |= 1 << lane
    call.count = max(int64(call.count), lane + 1)


@compiled
def queue_call(state: Calls, c: int) -> None:
    header = state.header
    state.calls[c].next = NOTHING
    if header.first_unsent == NOTHING:
        header.first_unsent = c
    else:
        state.calls[header.last_unsent].next = c
    header.last_unsent = c
    header.n_calls += 1
