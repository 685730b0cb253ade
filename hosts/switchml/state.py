"""A SwitchML worker's state: its vector, what was added up of it, and the packets on their way."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.designs.interface import NEVER
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import rpcs
from hosts.switchml.packet import SLOTS, VALUES
from hosts.worker.lockstep import PATIENCE_NS
from hosts.worker.row import ROW
from hosts.worker.timer import MINIMUM
from nativekit.records import record, records

ME = record(
    "job", "worker", "window", "pool", "workers", "op", "iteration", "n_keys", "calls", "pending", "due",
    "number", "first", "chunks", "batch", "total", "is_float",
    "next_ready", "ready", "progress", "patience", "stalled", "stalled_at", "incomplete",
    "backed_off_at", "timeout", ("smoothed", np.float64), ("variation", np.float64),
    "rows", "owes", "malformed", "unexpected", "retransmissions",
)  # fmt: skip
"""Slots of the switch are from `pool` on. `number` counts all-reduces, and `first` the packets before this
one. An all-reduce has `chunks` and `total` packets, of which a `batch` is on its way at once; `pending` have
no result. From `next_ready` on, `ready` slots of the ring wait to be sent. `incomplete` counts results
without somebody. Times in ns."""
SLOT = record("busy", "packet", "t0", "sent", "deadline", "attempts", "queued")
"""`packet` is its number in the all-reduce."""


class Reducer(NamedTuple):
    """A worker's calls for one job; N is the size of its vector in whole chunks, and B that of an
    operation."""

    me: Any
    """A record of numbers."""
    slots: Any
    """SLOT[WINDOW]"""
    sent: Any
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    ring: Any
    """int64[WINDOW]: slots that are to be sent."""
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
    addend: Any
    """int32[N]: what this worker adds."""
    sums: Any
    """int32[N]: what all workers add."""
    floats: Any
    """float32[N]: the addend of an all-reduce of floats, and then its result."""
    scales: Any
    """float64[N / VALUES]: of its chunks, once they are agreed on."""
    log: Any
    """ROW[n]: results, the first me.rows."""


def make_reducer(
    job: int, worker: int, *, size: int, largest: int, window: int = WINDOW, rows: int = 1024
) -> Reducer:
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window is {window}, not 1..{WINDOW}")
    me = records(1, ME)[0]
    me.job, me.worker, me.window, me.pool = job, worker, window, job * WINDOW % SLOTS
    me.workers, me.due, me.timeout, me.patience = 1, NEVER, 5 * MINIMUM, PATIENCE_NS
    whole = -(-size // VALUES) * VALUES
    return Reducer(
        me=me,
        slots=records(WINDOW, SLOT),
        sent=rpcs(WINDOW),
        ring=np.zeros(WINDOW, np.int64),
        positions=np.zeros(largest, np.int64),
        deltas=np.zeros(largest, np.uint32),
        values=np.zeros(largest, np.uint32),
        answered=np.zeros(largest, np.bool_),
        model=np.zeros(whole, np.uint32),
        addend=np.zeros(whole, np.int32),
        sums=np.zeros(whole, np.int32),
        floats=np.zeros(whole, np.float32),
        scales=np.zeros(whole // VALUES, np.float64),
        log=records(rows, ROW),
    )
