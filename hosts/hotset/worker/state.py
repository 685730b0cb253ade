"""All that a worker's calls for one job work on, as arrays of records.

One operation runs at a time: its keys, by index, travel in calls, each one RPC. A call is a record that is
taken from `spare` and goes back with its answer. Calls wait in a queue until a slot of the window is free.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NOTHING
from foundation.protocol.header import LANES, WINDOW
from foundation.protocol.rpc import rpcs
from hosts.worker.row import ROW
from hosts.worker.window import ME as WINDOW_ME
from hosts.worker.window import SLOT, open_window
from nativekit.compile import compiled, int64
from nativekit.records import record, records

ME = record(
    *WINDOW_ME,
    "n_ps",
    "registers",  # what a PS does to the switch: all keys in hash lanes, and no answer teaches anything
    "op", "iteration", "n_keys",
    "pending",  # keys of the operation that are not answered; an empty RPC counts as one
    "calls",  # of the operation so far
    "first_unsent", "last_unsent", "spare", "groups",
    "keeps",  # a replay log; `owes` is where to look for what is owed, from 1 on, or 0
)  # fmt: skip
CALL = record(
    "ps", "count", "live", "hashed", "refusals", "next", "asked", "asked_epoch",
    ("key_at", np.int32, (LANES,)),
)  # fmt: skip
"""One RPC; `key_at` has the key of each live lane, `next` the call behind it in a chain or in the queue. The
`hashed` lanes have keys by their hash, for the switch to serve. Where a switch is gone that may have had it,
it only asks what has become of itself: `asked` and `asked_epoch` are its seq and epoch then."""
PILE = record("first", "keys", "calls", "room")
"""Keys that wait for a lane, linked by `behind`, and how many. Where any lane of an RPC to a PS will do: how
many calls it gets, too, and lanes in these that they leave free."""
CHAIN = record("head", ("latest", np.int64, (LANES,)))
"""Calls of one PS that are being filled by hash: the first, and the latest that has each lane in use."""
GROUP = record("refusals", "due", "first", "last")
"""Keys that have been refused as often, and when they go again; linked by `behind`."""


class Calls(NamedTuple):
    """A worker's calls for one job; B is the largest number of keys of an operation."""

    me: Any
    """A record of numbers."""
    slots: Any
    """SLOT[WINDOW]"""
    sent: Any
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    free: Any
    """int64[WINDOW]: next sequence numbers of the me.free slots that are free, the next to be used last."""
    again: Any
    """int64[WINDOW]: slots to be sent again, a ring of me.queued_again from me.again on."""
    calls: Any
    """CALL[B + 1]"""
    spare: Any
    """int64[B + 1]: the me.spare calls that are not in use."""
    piles: Any
    """PILE[LANES + n_ps]: hot keys by their lane, cold keys by their PS."""
    order: Any
    """int64[LANES]: lanes, those that most keys wait for first."""
    chains: Any
    """CHAIN[n_ps]"""
    keys: Any
    """uint64[B]"""
    positions: Any
    """int64[B]: of the keys in the key space."""
    deltas: Any
    """uint32[B]: what a push adds."""
    values: Any
    """uint32[B]: what a pull brings."""
    answered: Any
    """bool[>= size]: deltas that are known to be applied; the caller's."""
    served: Any
    """bool[B]: the switch has served the key."""
    kept: Any
    """uint32[2, parameters], by position, the replay log: what the switch has acknowledged, and what one that
    is gone had, which is owed to the servers; [2, 0] without one."""
    hinted: Any
    """uint8[parameters / 8 + 1], a bit a position: goes to its hash lane."""
    space: Any
    """uint64[parameters]: key at each position; empty where they are the same."""
    groups: Any
    """GROUP[B]: the first me.groups are in use, in order of their beginning."""
    behind: Any
    """int32[B]: next key of the same group or pile."""
    log: Any
    """ROW[n]: answered RPCs, the first me.rows."""


def make_calls(
    job: int,
    worker: int,
    epoch: int,
    *,
    n_ps: int,
    parameters: int,
    sparse: NDArray[np.uint64] | None,
    largest: int,
    window: int = WINDOW,
    rows: int = 1024,
    registers: bool = False,
    kept: NDArray[np.uint32] | None = None,
) -> Calls:
    """Calls of an idle worker; `largest` is the most keys that an operation may have, `kept` its replay
    log."""
    me = records(1, ME)[0]
    free = open_window(me, job, worker, epoch, window)
    me.n_ps, me.registers, me.keeps = n_ps, registers, kept is not None
    me.first_unsent = me.last_unsent = NOTHING
    me.spare = largest + 1
    # Both kinds of key space have one type for the compiler: arrays that are only read.
    space = (np.zeros(0, np.uint64) if sparse is None else np.asarray(sparse, np.uint64)).view(np.ndarray)
    space.setflags(write=False)
    return Calls(
        me=me,
        slots=records(WINDOW, SLOT),
        sent=rpcs(WINDOW),
        free=free,
        again=np.zeros(WINDOW, np.int64),
        calls=records(largest + 1, CALL),
        spare=np.arange(largest + 1)[::-1].copy(),
        piles=records(LANES + n_ps, PILE),
        order=np.zeros(LANES, np.int64),
        chains=records(n_ps, CHAIN),
        keys=np.zeros(largest, np.uint64),
        positions=np.zeros(largest, np.int64),
        deltas=np.zeros(largest, np.uint32),
        values=np.zeros(largest, np.uint32),
        answered=np.zeros(largest, np.bool_),
        served=np.zeros(largest, np.bool_),
        kept=np.zeros((2, 0), np.uint32) if kept is None else kept,
        hinted=np.zeros(1 if registers else parameters // 8 + 1, np.uint8),
        space=space,
        groups=records(largest, GROUP),
        behind=np.zeros(largest, np.int32),
        log=records(rows, ROW),
    )


@compiled
def is_hinted(state: Calls, at: int) -> bool:
    """Whether the key at a position goes to its hash lane."""
    return bool(int64(state.hinted[at >> 3]) >> (at & 7) & 1)


@compiled
def hint(state: Calls, at: int, goes: bool) -> None:
    """Have the key at a position go to its hash lane, or no longer."""
    bit = 1 << (at & 7)
    state.hinted[at >> 3] = int64(state.hinted[at >> 3]) & ~bit | (bit if goes else 0)
