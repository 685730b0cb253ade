"""Packing: which key of an operation travels in which lane of which RPC.

The switch serves a hot key in its hash lane only, but in any RPC, for any PS; a PS refuses keys of other
shares that the switch has not served. So:

- Cold keys take the minimum number of RPCs to their PS. Hot keys fill the free lanes of these RPCs.
- The remaining hot keys travel in RPCs with hot keys only, which the switch answers alone.
- A PS gets one RPC more than its cold keys need if its free lanes save more than two RPCs with hot keys only:
  an RPC to a PS costs the worker and the PS about the same, one with hot keys only costs the worker alone.

RPCs for servers are sent first, one for each PS in turn, because they take longest. `docs/design.md` has the
savings.

Keys in their hash lanes go to their own PS: those that a PS has refused, until switch and PS agree on their
owner, and all keys that a PS reads or writes in the switch.
"""

from __future__ import annotations

from foundation.protocol.header import LANES
from foundation.protocol.rpc import ps_of
from hotline_agents.hotset.worker.state import (
    NOT_REFUSED,
    Calls,
    drop_call,
    hash_lane,
    is_hinted,
    level_of,
    new_call,
    place_key,
    queue_call,
)
from hotline_agents.interface import NOTHING
from hotline_agents.worker.rpcs import dim_of
from nativekit.bits import popcount
from nativekit.compile import compiled, inlined, int64

_COST_AT_PS = 2  # cost of an RPC that reaches a PS, in RPCs that only the switch answers


@compiled
def pack(state: Calls, n_keys: int, uses_switch: bool = True) -> None:
    """Queue the calls of an operation on the first `n_keys` keys whose rows have the dim that is packed now.

    Without `uses_switch` all keys are cold. The keys of each home are packed by themselves, as an RPC passes
    one switch with hot sets. Cold keys go to the home at level 0.
    """
    for home in range(len(state.windows)):
        clear_buckets(state)
        # Backwards: a bucket is a stack, whose first key was added last.
        if state.header.dim:
            for i in range(n_keys - 1, -1, -1):
                if _has_home(state, i, home, uses_switch):
                    _bucket_key(state, i, uses_switch)
        else:
            for i in range(n_keys - 1, -1, -1):
                if dim_of(state, i) == state.header.packed_dim and _has_home(state, i, home, uses_switch):
                    _bucket_key(state, i, uses_switch)
        pack_buckets(state, int64(state.windows[home].level))


@inlined
def _has_home(state: Calls, i: int, home: int, uses_switch: bool) -> bool:
    if len(state.windows) == 1:
        return True
    n_ps, position = state.header.n_ps, int64(state.positions[i])
    is_hot = uses_switch and is_hinted(state, position)
    level = level_of(state, position) if is_hot else 0
    return bool(state.homes[level * n_ps + ps_of(state.keys[i], n_ps)] == home)


@inlined
def _bucket_key(state: Calls, i: int, uses_switch: bool) -> None:
    if uses_switch and is_hinted(state, int64(state.positions[i])):
        _add_to_bucket(state, i, hash_lane(state, i))
    else:
        bucket_cold_key(state, i)


@compiled
def clear_buckets(state: Calls) -> None:
    for p in range(len(state.buckets)):
        bucket = state.buckets[p]
        bucket.first, bucket.n_keys = NOTHING, 0


@compiled
def bucket_cold_key(state: Calls, i: int) -> None:
    _add_to_bucket(state, i, LANES + ps_of(state.keys[i], state.header.n_ps))


@compiled
def _add_to_bucket(state: Calls, i: int, p: int) -> None:
    bucket = state.buckets[p]
    state.next_key[i] = bucket.first
    bucket.first = i
    bucket.n_keys += 1


@compiled
def pack_buckets(state: Calls, level: int) -> None:
    hot_only_rpcs = _plan_rpcs(state)
    first = _link_calls(state, level)
    _fill_free_lanes(state, first, hot_only_rpcs)
    _place_cold_keys(state, first)
    _queue_hot_only_calls(state, level)


@compiled
def _plan_rpcs(state: Calls) -> int:
    n_calls, n_free_lanes, lane_bits = 0, 0, state.header.lane_bits
    for ps in range(state.header.n_ps):
        bucket = state.buckets[LANES + ps]
        bucket.n_calls = _count_rpcs(bucket.n_keys, lane_bits)
        bucket.n_free_lanes = (bucket.n_calls << lane_bits) - bucket.n_keys
        n_calls += bucket.n_calls
        n_free_lanes += bucket.n_free_lanes
    largest_bucket = 0
    for lane in range(LANES):
        largest_bucket = max(largest_bucket, state.buckets[lane].n_keys)
    best_hot_only, lowest_cost, best_extra, n_left_over = largest_bucket, largest_bucket, 0, 0
    for hot_only_rpcs in range(largest_bucket - 1, -1, -1):
        # With one RPC less, each bucket above `hot_only_rpcs` leaves over one key more.
        for lane in range(LANES):
            n_left_over += state.buckets[lane].n_keys > hot_only_rpcs
        n_extra = _count_rpcs(max(n_left_over - n_free_lanes, 0), lane_bits)
        cost = hot_only_rpcs + _COST_AT_PS * n_extra
        # A call has each lane once, so it takes at most one key of each bucket.
        if largest_bucket - hot_only_rpcs > n_calls + n_extra or _COST_AT_PS * n_extra > lowest_cost:
            break
        if cost < lowest_cost:
            best_hot_only, lowest_cost, best_extra = hot_only_rpcs, cost, n_extra
    for _ in range(best_extra):
        _plan_extra_rpc(state)
    return best_hot_only


@compiled
def _count_rpcs(n_keys: int, lane_bits: int) -> int:
    return n_keys + (1 << lane_bits) - 1 >> lane_bits


@compiled
def _plan_extra_rpc(state: Calls) -> None:
    """Plan one more RPC for the PS whose RPCs have least room, if some PS has more cold keys than RPCs."""
    best = NOTHING
    for p in range(LANES, len(state.buckets)):
        bucket = state.buckets[p]
        is_fuller = best == NOTHING or bucket.n_free_lanes < state.buckets[best].n_free_lanes
        if bucket.n_keys > bucket.n_calls and is_fuller:
            best = p
    if best != NOTHING:
        bucket = state.buckets[best]
        bucket.n_calls += 1
        bucket.n_free_lanes += 1 << state.header.lane_bits


@compiled
def _link_calls(state: Calls, level: int) -> int:
    first = last = NOTHING
    turn, has_more = 0, True
    while has_more:
        has_more = False
        for ps in range(state.header.n_ps):
            if state.buckets[LANES + ps].n_calls > turn:
                c = new_call(state, ps, level, NOT_REFUSED)
                if first == NOTHING:
                    first = c
                else:
                    state.calls[last].next = c
                last, has_more = c, True
        turn += 1
    return first


@compiled
def _fill_free_lanes(state: Calls, first: int, hot_only_rpcs: int) -> None:
    """Place the hot keys that do not fit in `hot_only_rpcs` calls in free lanes of the linked calls."""
    # Each call takes keys of the largest buckets, which fills as many lanes as possible (Ryser, Canad. J.
    # Math. 9, 1957: a matrix of bits with given sums).
    n_waiting, c = _sort_lanes(state, hot_only_rpcs), first
    while c != NOTHING and n_waiting:
        call = state.calls[c]
        cold_bucket = state.buckets[LANES + call.ps]
        lanes_per_call = (cold_bucket.n_free_lanes + cold_bucket.n_calls - 1) // cold_bucket.n_calls
        n_hot = min(lanes_per_call, n_waiting)
        cold_bucket.n_free_lanes -= n_hot
        cold_bucket.n_calls -= 1
        _place_from_largest_buckets(state, c, n_hot)
        while n_waiting and state.buckets[state.order[n_waiting - 1]].n_keys == hot_only_rpcs:
            n_waiting -= 1
        c = call.next


@compiled
def _sort_lanes(state: Calls, hot_only_rpcs: int) -> int:
    """Sort `order` by bucket size, largest first; return the number of buckets above `hot_only_rpcs`."""
    n_waiting = 0
    for lane in range(LANES):
        k = lane
        while k > 0 and state.buckets[state.order[k - 1]].n_keys < state.buckets[lane].n_keys:
            state.order[k] = state.order[k - 1]
            k -= 1
        state.order[k] = lane
        n_waiting += state.buckets[lane].n_keys > hot_only_rpcs
    return n_waiting


@compiled
def _place_from_largest_buckets(state: Calls, c: int, n: int) -> None:
    # Of buckets of equal size the last in `order` are taken, so that `order` stays sorted.
    if n == 0:
        return
    size = int64(state.buckets[state.order[n - 1]].n_keys)
    begin, end = n, n
    while begin > 0 and state.buckets[state.order[begin - 1]].n_keys == size:
        begin -= 1
    while end < LANES and state.buckets[state.order[end]].n_keys == size:
        end += 1
    for k in range(begin):
        _place_hot_key(state, int64(state.order[k]), c)
    for k in range(end - (n - begin), end):
        _place_hot_key(state, int64(state.order[k]), c)


@compiled
def _place_cold_keys(state: Calls, first: int) -> None:
    c, all_lanes = first, (1 << (1 << state.header.lane_bits)) - 1
    while c != NOTHING:
        call = state.calls[c]
        bucket, next_call = state.buckets[LANES + call.ps], call.next
        while bucket.first != NOTHING and call.live != all_lanes:
            i, free_lanes = bucket.first, ~call.live
            bucket.first = state.next_key[i]
            # The first free lane is the number of 0 bits below the first 1.
            place_key(state, i, c, popcount((free_lanes & -free_lanes) - 1))
        if call.live:
            queue_call(state, c)
        else:
            drop_call(state, c)
        c = next_call


@compiled
def _queue_hot_only_calls(state: Calls, level: int) -> None:
    while True:
        c = int64(NOTHING)
        for lane in range(LANES):
            i = state.buckets[lane].first
            if i != NOTHING:
                if c == NOTHING:
                    ps = ps_of(state.keys[i], state.header.n_ps)
                    c = new_call(state, ps, level, NOT_REFUSED)
                _place_hot_key(state, lane, c)
        if c == NOTHING:
            return
        queue_call(state, c)


@compiled
def _place_hot_key(state: Calls, lane: int, c: int) -> None:
    bucket = state.buckets[lane]
    i = bucket.first
    bucket.first = state.next_key[i]
    bucket.n_keys -= 1
    place_key(state, i, c, lane)
    state.calls[c].hashed |= 1 << lane


@compiled
def clear_chains(state: Calls) -> None:
    for k in range(len(state.chains)):
        chain = state.chains[k]
        chain.head = NOTHING
        for lane in range(LANES):
            chain.last_calls[lane] = NOTHING


@compiled
def place_in_hash_lane(state: Calls, i: int, refusals: int) -> None:
    ps, lane = ps_of(state.keys[i], state.header.n_ps), hash_lane(state, i)
    level = level_of(state, int64(state.positions[i]))
    chain = state.chains[level * state.header.n_ps + ps]
    previous_call = int64(chain.last_calls[lane])
    c = chain.head if previous_call == NOTHING else int64(state.calls[previous_call].next)
    if c == NOTHING:
        c = new_call(state, ps, level, refusals)
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
        for k in range(len(state.chains)):
            chain = state.chains[k]
            c = chain.head
            if c != NOTHING:
                chain.head = state.calls[c].next
                queue_call(state, c)
                has_more = True
