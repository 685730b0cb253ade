"""Keys that a PS has refused, and when they are sent again.

A key of the PS's own share is in the switch, or being moved there. It is sent in its hash lane, after a delay
that doubles with each refusal. A key of another share was in a free lane, and the switch did not have it: the
key is sent to its own PS at once.
"""

from __future__ import annotations

from foundation.designs.interface import NOTHING
from hosts.hotset.worker.hashed import clear_chains, place_in_hash_lane, queue_chains
from hosts.hotset.worker.packing import bucket_cold_key, clear_buckets, pack_buckets
from hosts.hotset.worker.state import Calls
from nativekit.compile import compiled, int64

FIRST_BACKOFF_NS = 250_000
MAX_DOUBLINGS = 7
MISSED = 0  # in place of a number of refusals: another PS refused the key, as the switch did not have it


@compiled
def queue_refused_key(state: Calls, i: int, refusals: int, now: int) -> None:
    """Queue key `i`, which its own PS has refused `refusals` times; MISSED if another PS refused it."""
    group = state.groups[_group_index(state, refusals, now)]
    state.next_key[i] = NOTHING
    if group.first == NOTHING:
        group.first = i
    else:
        state.next_key[group.last] = i
    group.last = i


@compiled
def _group_index(state: Calls, refusals: int, now: int) -> int:
    header = state.header
    for g in range(int64(header.n_groups)):
        if state.groups[g].refusals == refusals:
            return g
    g = int64(header.n_groups)
    group = state.groups[g]
    group.refusals, group.first, group.last = refusals, NOTHING, NOTHING
    group.due = now + (FIRST_BACKOFF_NS << min(refusals - 1, MAX_DOUBLINGS) if refusals else 0)
    header.due = min(int64(header.due), int64(group.due))
    header.n_groups += 1
    return g


@compiled
def resend_refused_keys(state: Calls, now: int) -> None:
    header, n_waiting = state.header, int64(0)
    for g in range(int64(header.n_groups)):
        group = state.groups[g]
        if group.due > now:
            target = state.groups[n_waiting]
            target.refusals, target.due, target.first, target.last = (
                group.refusals, group.due, group.first, group.last
            )  # fmt: skip
            n_waiting += 1
            continue
        if group.refusals != MISSED:
            _resend_in_hash_lanes(state, int64(group.first), int64(group.refusals))
        else:
            _resend_missed_keys(state, int64(group.first))
    header.n_groups = n_waiting


@compiled
def _resend_in_hash_lanes(state: Calls, first: int, refusals: int) -> None:
    clear_chains(state)
    i = first
    while i != NOTHING:
        place_in_hash_lane(state, i, refusals)
        i = int64(state.next_key[i])
    queue_chains(state)


@compiled
def _resend_missed_keys(state: Calls, first: int) -> None:
    clear_buckets(state)
    i = first
    while i != NOTHING:
        next_index = int64(state.next_key[i])
        bucket_cold_key(state, i)
        i = next_index
    pack_buckets(state)


@compiled
def next_resend_time(state: Calls, due: int) -> int:
    for g in range(int64(state.header.n_groups)):
        due = min(due, int64(state.groups[g].due))
    return due
