"""A worker's state in a ring: its vector, what goes to the next worker, and what has come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import rpcs
from hosts.dense.packet import LEAST_SIZE, SIZE, WORKERS
from hosts.dense.vector import ME
from hosts.worker.lockstep import PATIENCE_NS
from hosts.worker.row import ROW
from hosts.worker.window import SLOT, open_window
from nativekit.records import record, records

# First, so that numba does not take the record for one of another design's, with fields of its own behind.
_ME = record("part", "in_part", "next_ack", "acks", "next_out", *ME)
"""A part has `part` values, in `in_part` chunks; `acks` wait to be sent, from `next_ack` on."""
ACK = record("number", "chunk", "workers")
ACKS = 256
"""That wait at most; of more the chunks come again."""
OUT = 16
"""Datagrams of acknowledgements: more than leave in a burst."""
EARLY = record("length")


class Member(NamedTuple):
    """A worker's calls for one job; N is the size of its vector, B that of an operation."""

    me: Any
    """A record of numbers."""
    slots: Any
    """SLOT[WINDOW]: `call` is the chunk."""
    sent: Any
    """RPC[WINDOW + OUT]: each slot's datagram, for as long as it may be sent again; then acknowledgements."""
    free: Any
    """int64[WINDOW], as `hosts.worker.window` has it."""
    again: Any
    """int64[WINDOW], likewise."""
    got: Any
    """uint8[c]: the chunks that have come, of as many as there are in a ring of 32."""
    waiting: Any
    """ACK[ACKS]: a ring."""
    early: Any
    """RPC[WINDOW]: chunks of the next vectors, whose sender has begun before this worker."""
    early_lengths: Any
    """EARLY[WINDOW]: of them; 0 for none."""
    positions: Any
    """int64[B]: of an operation's parameters."""
    deltas: Any
    """uint32[B]: what a push adds."""
    values: Any
    """uint32[B]: what a pull brings."""
    answered: Any
    """bool[>= B]: deltas that are known to be applied; the caller's."""
    model: Any
    """uint32[N]: the parameters, which all workers have alike."""
    vector: Any
    """uint32[N]: addends, and sums in their place."""
    log: Any
    """ROW[n]: chunks that have arrived, the first me.rows."""


def make_member(
    job: int, worker: int, epoch: int, *, n_ps: int, size: int, largest: int, window: int = WINDOW,
    rows: int = 1024,
) -> Member:  # fmt: skip
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    me = records(1, _ME)[0]
    free = open_window(me, job, worker, epoch, window)
    me.n_ps, me.workers, me.full, me.patience = n_ps, 1, SIZE, PATIENCE_NS
    # Of W workers 2 (W - 1) steps, of as many chunks as ceil(N / W) values take.
    chunks = 2 * (size // LEAST_SIZE + 2 * WORKERS)
    return Member(
        me=me,
        slots=records(WINDOW, SLOT),
        sent=rpcs(WINDOW + OUT),
        free=free,
        again=np.zeros(WINDOW, np.int64),
        got=np.zeros(chunks, np.uint8),
        waiting=records(ACKS, ACK),
        early=rpcs(WINDOW),
        early_lengths=records(WINDOW, EARLY),
        positions=np.zeros(largest, np.int64),
        deltas=np.zeros(largest, np.uint32),
        values=np.zeros(largest, np.uint32),
        answered=np.zeros(largest, np.bool_),
        model=np.zeros(size, np.uint32),
        vector=np.zeros(size, np.uint32),
        log=records(rows, ROW),
    )
