"""Which key of an operation travels in which lane of which RPC.

The switch serves a hot key in its hash lane only, but in any RPC, whichever PS that is for; a PS refuses keys
of other shares that the switch has not served. So:

- Cold keys take as few RPCs to their PS as hold them. Hot keys ride in the lanes that those leave free.
- Hot keys that find no room travel in RPCs of their own, one in each lane. The switch answers them alone.
- A PS gets one RPC more than its cold keys need where the room in it spares more than two of hot keys:
  an RPC costs a worker about what it costs a PS.

RPCs for servers go first, in turn for each PS, as they take longest. `docs/design.md` has what it saves.
"""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from foundation.protocol.header import LANES
from foundation.protocol.rpc import ALL, lane_of, ps_of
from hosts.hotset.worker.calls import drop_call, new_call, place, queue_call
from hosts.hotset.worker.state import Calls, is_hinted
from nativekit.bits import popcount
from nativekit.compile import compiled, int64

_COST_AT_PS = 2
"""Of an RPC that a PS gets, too: what it costs worker and PS, in RPCs that only a worker has."""


@compiled
def pack(state: Calls, n_keys: int) -> None:
    """Queue the calls of an operation on the first `n_keys` keys."""
    clear_piles(state)
    for i in range(n_keys - 1, -1, -1):  # a pile's first key is the last that came
        if is_hinted(state, int64(state.positions[i])):
            _pile(state, i, lane_of(state.keys[i]))
        else:
            pile_cold(state, i)
    pack_piles(state)


@compiled
def clear_piles(state: Calls) -> None:
    """Let no key wait for a lane."""
    for p in range(len(state.piles)):
        pile = state.piles[p]
        pile.first, pile.keys = NOTHING, 0


@compiled
def pile_cold(state: Calls, i: int) -> None:
    """Let key `i` wait for any lane of an RPC to its PS."""
    _pile(state, i, LANES + ps_of(state.keys[i], int64(state.me.n_ps)))


@compiled
def _pile(state: Calls, i: int, p: int) -> None:
    pile = state.piles[p]
    state.behind[i] = pile.first
    pile.first = i
    pile.keys += 1


@compiled
def pack_piles(state: Calls) -> None:
    """Queue calls for all keys that wait."""
    pure = _share_out(state)
    first = _open_calls(state)
    _let_ride(state, first, pure)
    _fill(state, first)
    _queue_pure(state)


@compiled
def _share_out(state: Calls) -> int:
    """Choose how many calls each PS gets; returns how many calls are to have hot keys only."""
    calls, room = int64(0), int64(0)
    for ps in range(int64(state.me.n_ps)):
        pile = state.piles[LANES + ps]
        pile.calls = (pile.keys + LANES - 1) // LANES
        pile.room = pile.calls * LANES - pile.keys
        calls += pile.calls
        room += pile.room
    tallest = int64(0)
    for lane in range(LANES):
        tallest = max(tallest, int64(state.piles[lane].keys))
    best, least, extra, riding = tallest, tallest, int64(0), int64(0)
    for pure in range(tallest - 1, -1, -1):
        for lane in range(LANES):
            riding += state.piles[lane].keys > pure
        more = max(riding - room + LANES - 1, 0) // LANES
        cost = pure + _COST_AT_PS * more
        if tallest - pure > calls + more or _COST_AT_PS * more > least:  # a call has each lane once
            break
        if cost < least:
            best, least, extra = int64(pure), cost, more
    for _ in range(extra):
        _open_another(state)
    return best


@compiled
def _open_another(state: Calls) -> None:
    """Let the PS whose calls have least room have one more, if one has cold keys for it."""
    chosen = int64(NOTHING)
    for p in range(LANES, len(state.piles)):
        pile = state.piles[p]
        if pile.keys > pile.calls and (chosen == NOTHING or pile.room < state.piles[chosen].room):
            chosen = p
    if chosen != NOTHING:
        pile = state.piles[chosen]
        pile.calls += 1
        pile.room += LANES


@compiled
def _open_calls(state: Calls) -> int:
    """The calls that servers get, in turn for each PS and linked; returns the first, or NOTHING."""
    first = last = int64(NOTHING)
    turn, more = int64(0), True
    while more:
        more = False
        for ps in range(int64(state.me.n_ps)):
            if state.piles[LANES + ps].calls > turn:
                c = new_call(state, ps, 0)
                if first == NOTHING:
                    first = c
                else:
                    state.calls[last].next = c
                last, more = c, True
        turn += 1
    return first


@compiled
def _let_ride(state: Calls, first: int, pure: int) -> None:
    """Place the hot keys that `pure` calls do not take in linked calls: each takes keys of the tallest piles.

    So all find room for whom there is any (Ryser, Canad. J. Math. 9, 1957: a matrix of bits with given sums).
    """
    waiting, c = _sort_lanes(state, pure), int64(first)
    while c != NOTHING and waiting:
        call = state.calls[c]
        cold = state.piles[LANES + call.ps]
        riding = min(int64((cold.room + cold.calls - 1) // cold.calls), waiting)
        cold.room -= riding
        cold.calls -= 1
        _take_tallest(state, c, riding)
        while waiting and state.piles[state.order[waiting - 1]].keys == pure:
            waiting -= 1
        c = int64(call.next)


@compiled
def _sort_lanes(state: Calls, pure: int) -> int:
    """Sort lanes by the keys that wait for them, most first; returns how many have more than `pure`."""
    waiting = int64(0)
    for lane in range(LANES):
        at = int64(lane)
        while at > 0 and state.piles[state.order[at - 1]].keys < state.piles[lane].keys:
            state.order[at] = state.order[at - 1]
            at -= 1
        state.order[at] = lane
        waiting += state.piles[lane].keys > pure
    return waiting


@compiled
def _take_tallest(state: Calls, c: int, n: int) -> None:
    """Place the next key of each of the `n` tallest piles; of equals the last ones, which keeps the order."""
    if n == 0:
        return
    least = int64(state.piles[state.order[n - 1]].keys)
    begin, end = int64(n), int64(n)
    while begin > 0 and state.piles[state.order[begin - 1]].keys == least:
        begin -= 1
    while end < LANES and state.piles[state.order[end]].keys == least:
        end += 1
    for at in range(begin):
        _place_hot(state, int64(state.order[at]), c)
    for at in range(end - (n - begin), end):
        _place_hot(state, int64(state.order[at]), c)


@compiled
def _fill(state: Calls, first: int) -> None:
    """Place cold keys in the free lanes of linked calls, and queue these."""
    c = int64(first)
    while c != NOTHING:
        call = state.calls[c]
        pile, following = state.piles[LANES + call.ps], int64(call.next)
        while pile.first != NOTHING and call.live != ALL:
            i, free = int64(pile.first), ~int64(call.live)
            pile.first = state.behind[i]
            place(state, i, c, popcount((free & -free) - 1))
        if call.live:
            queue_call(state, c)
        else:
            drop_call(state, c)
        c = following


@compiled
def _queue_pure(state: Calls) -> None:
    """Queue calls for the hot keys that still wait; each is for the PS of its first key."""
    while True:
        c = int64(NOTHING)
        for lane in range(LANES):
            i = int64(state.piles[lane].first)
            if i != NOTHING:
                if c == NOTHING:
                    c = new_call(state, ps_of(state.keys[i], int64(state.me.n_ps)), 0)
                _place_hot(state, lane, c)
        if c == NOTHING:
            return
        queue_call(state, c)


@compiled
def _place_hot(state: Calls, lane: int, c: int) -> None:
    """Place the next key that waits for a lane."""
    pile = state.piles[lane]
    i = int64(pile.first)
    pile.first = state.behind[i]
    pile.keys -= 1
    place(state, i, c, lane)
    state.calls[c].hashed |= 1 << lane
