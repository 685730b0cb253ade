"""Keys that a PS has refused, as they are in the switch or on their way: each goes again, in its hash lane.

They wait the longer the more often they have been refused.
"""

from __future__ import annotations

from hosts.worker.packing import begin_packing, place_hashed, queue_placed
from hosts.worker.state import NOTHING, Calls
from native.compile import compiled, int64

FIRST_BACKOFF_NS = 250_000
MAX_DOUBLINGS = 7


@compiled
def refuse(state: Calls, i: int, refusals: int, now: int) -> None:
    """Key `i` is refused, after it has been so `refusals` times before."""
    group = state.groups[_group_of(state, refusals + 1, now)]
    state.behind[i] = NOTHING
    if group.first == NOTHING:
        group.first = i
    else:
        state.behind[group.last] = i
    group.last = i


@compiled
def _group_of(state: Calls, refusals: int, now: int) -> int:
    me = state.me
    for g in range(int64(me.groups)):
        if state.groups[g].refusals == refusals:
            return g
    g = int64(me.groups)
    group = state.groups[g]
    group.refusals, group.first, group.last = refusals, NOTHING, NOTHING
    group.due = now + (FIRST_BACKOFF_NS << min(refusals - 1, MAX_DOUBLINGS))
    me.due = min(int64(me.due), int64(group.due))
    me.groups += 1
    return g


@compiled
def resend_refused(state: Calls, now: int) -> None:
    """Queue new calls for the keys that have waited long enough."""
    me, kept = state.me, int64(0)
    for g in range(int64(me.groups)):
        group = state.groups[g]
        if group.due > now:
            stays = state.groups[kept]
            stays.refusals, stays.due, stays.first, stays.last = (
                group.refusals, group.due, group.first, group.last
            )  # fmt: skip
            kept += 1
            continue
        begin_packing(state)
        i = int64(group.first)
        while i != NOTHING:
            place_hashed(state, i, int64(group.refusals))
            i = int64(state.behind[i])
        queue_placed(state)
    me.groups = kept


@compiled
def next_refused_due(state: Calls, due: int) -> int:
    """When the first group is due, if that is before `due`."""
    for g in range(int64(state.me.groups)):
        due = min(due, int64(state.groups[g].due))
    return due
