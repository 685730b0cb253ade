"""Calls for keys in their hash lanes, each to the key's own PS.

In this way a worker sends a key that its PS has refused, until switch and PS agree on its owner, and a PS
sends all keys that it reads or writes in the switch.
"""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from foundation.protocol.header import LANES
from foundation.protocol.rpc import ps_of
from hosts.hotset.worker.calls import new_call, place_key, queue_call
from hosts.hotset.worker.state import Calls, hash_lane
from nativekit.compile import compiled, int64


@compiled
def clear_chains(state: Calls) -> None:
    for ps in range(int64(state.header.n_ps)):
        chain = state.chains[ps]
        chain.head = NOTHING
        for lane in range(LANES):
            chain.last_calls[lane] = NOTHING


@compiled
def place_in_hash_lane(state: Calls, i: int, refusals: int) -> None:
    ps, lane = ps_of(state.keys[i], int64(state.header.n_ps)), hash_lane(state, i)
    chain = state.chains[ps]
    previous_call = int64(chain.last_calls[lane])
    c = int64(chain.head) if previous_call == NOTHING else int64(state.calls[previous_call].next)
    if c == NOTHING:
        c = new_call(state, ps, refusals)
        if previous_call == NOTHING:
            chain.head = c
        else:
            state.calls[previous_call].next = c
    chain.last_calls[lane] = c
    place_key(state, i, c, lane)
    state.calls[c].hashed |= 1 << lane


@compiled
def queue_chains(state: Calls) -> None:
    has_more = True
    while has_more:
        has_more = False
        for ps in range(int64(state.header.n_ps)):
            chain = state.chains[ps]
            c = int64(chain.head)
            if c != NOTHING:
                chain.head = state.calls[c].next
                queue_call(state, c)
                has_more = True
