"""Which key of an operation travels in which lane of which RPC.

Keys that are hinted hot go to their hash lane, in RPCs of their own: only there can the switch serve them,
and only an RPC of which every lane is served never reaches a PS. All other keys fill lanes densely. Dense
RPCs are sent first, and in turn for each PS.
"""

from __future__ import annotations

from hosts.worker.state import DENSE, HASHED, NOTHING, Calls
from native.compile import compiled, int64
from protocol.header import LANES
from protocol.rpc import lane_of, ps_of


@compiled
def begin_packing(state: Calls) -> None:
    """Let the next keys begin calls of their own."""
    for ps in range(int64(state.me.n_ps)):
        chain = state.chains[ps]
        chain.head[DENSE] = chain.head[HASHED] = chain.last = NOTHING
        for lane in range(LANES):
            chain.latest[lane] = NOTHING


@compiled
def place_dense(state: Calls, i: int) -> None:
    """Place key `i` in the next lane of its PS."""
    ps = ps_of(state.keys[i], int64(state.me.n_ps))
    chain = state.chains[ps]
    c = int64(chain.last)
    if c == NOTHING or state.calls[c].count == LANES:
        c = new_call(state, ps, DENSE, 0)
        if chain.last == NOTHING:
            chain.head[DENSE] = c
        else:
            state.calls[chain.last].next = c
        chain.last = c
    _place(state, i, c, int64(state.calls[c].count))


@compiled
def place_hashed(state: Calls, i: int, refusals: int) -> None:
    """Place key `i` in its hash lane, in the first call of its PS where that is free."""
    key = state.keys[i]
    ps, lane = ps_of(key, int64(state.me.n_ps)), lane_of(key)
    chain = state.chains[ps]
    before = int64(chain.latest[lane])
    c = int64(chain.head[HASHED]) if before == NOTHING else int64(state.calls[before].next)
    if c == NOTHING:
        c = new_call(state, ps, HASHED, refusals)
        if before == NOTHING:
            chain.head[HASHED] = c
        else:
            state.calls[before].next = c
    chain.latest[lane] = c
    _place(state, i, c, lane)


@compiled
def queue_placed(state: Calls) -> None:
    """Queue the calls that have been filled."""
    for way in (DENSE, HASHED):
        more = True
        while more:
            more = False
            for ps in range(int64(state.me.n_ps)):
                head = state.chains[ps].head
                c = int64(head[way])
                if c != NOTHING:
                    head[way] = state.calls[c].next
                    queue_call(state, c)
                    more = True


@compiled
def new_call(state: Calls, ps: int, way: int, refusals: int) -> int:
    """A call with no lanes in use."""
    me = state.me
    me.spare -= 1
    c = int64(state.spare[me.spare])
    call = state.calls[c]
    call.ps, call.count, call.live, call.way, call.refusals, call.next = ps, 0, 0, way, refusals, NOTHING
    call.asked = 0
    return c


@compiled
def queue_call(state: Calls, c: int) -> None:
    """Let a call be sent after all that wait."""
    me = state.me
    state.calls[c].next = NOTHING
    if me.first_unsent == NOTHING:
        me.first_unsent = c
    else:
        state.calls[me.last_unsent].next = c
    me.last_unsent = c
    me.calls += 1


@compiled
def _place(state: Calls, i: int, c: int, lane: int) -> None:
    call = state.calls[c]
    call.key_at[lane] = i
    call.live |= 1 << lane
    call.count = max(int64(call.count), lane + 1)
