"""A SwitchML worker's state: its vector, what was added up of it, and the packets on their way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER
from foundation.logs.columns import Row
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.keys import KeySpace
from hosts.switchml.packet import SLOTS, VALUES
from hosts.worker.arrays import operand_arrays
from hosts.worker.lockstep import PATIENCE_NS
from hosts.worker.timer import MINIMUM
from nativekit.records import Ints, Records, Words, one, records


class ReducerHeader:
    """The record of numbers; times in ns."""

    job: int
    worker: int
    window: int
    pool: int
    """The first of the job's slots in the switch."""
    workers: int
    op: int
    iteration: int
    n_keys: int
    calls: int
    pending: int
    """Packets that have no result."""
    due: int
    number: int
    """All-reduces so far."""
    first: int
    """Packets of all all-reduces before this one."""
    chunks: int
    batch: int
    """Packets that are on their way at once."""
    total: int
    """Packets of the all-reduce."""
    is_float: int
    next_ready: int
    """Where the ring of slots begins."""
    ready: int
    """Slots in the ring, which wait to be sent."""
    progress: int
    patience: int
    stalled: int
    stalled_at: int
    incomplete: int
    """Results that lack the values of a worker."""
    backed_off_at: int
    timeout: int
    smoothed: float
    variation: float
    rows: int
    unreplayed: int
    malformed: int
    unexpected: int
    retransmissions: int


class PacketSlot:
    """A slot of the window; times in ns."""

    busy: int
    packet: int
    """Its packet's number in the all-reduce."""
    t0: int
    sent: int
    deadline: int
    attempts: int
    queued: int


class Reducer(NamedTuple):
    """A worker's calls for one job; N is the size of its vector in whole chunks, and B that of an
    operation."""

    header: ReducerHeader
    """A record of numbers."""
    slots: Records[PacketSlot]
    """SLOT[WINDOW]"""
    sent: Records[Rpc]
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    ring: Ints
    """int64[WINDOW]: slots that are to be sent."""
    positions: Ints
    """int64[B]: of an operation's parameters."""
    deltas: Words
    """uint32[B]: what a push adds."""
    values: Words
    """uint32[B]: what a pull brings."""
    answered: NDArray[np.bool_]
    """bool[>= B]: deltas that are known to be applied; the caller's."""
    model: Words
    """uint32[N]: the parameters, which all workers have alike."""
    addend: NDArray[np.int32]
    """int32[N]: what this worker adds."""
    sums: NDArray[np.int32]
    """int32[N]: what all workers add."""
    floats: NDArray[np.float32]
    """float32[N]: the addend of an all-reduce of floats, and then its result."""
    scales: NDArray[np.float64]
    """float64[N / VALUES]: of its chunks, once they are agreed on."""
    log: Records[Row]
    """ROW[n]: results, the first header.rows."""


def make_reducer(
    caller: Caller, n_ps: int, space: KeySpace, largest: int, window: int, rows: int = 1024
) -> Reducer:
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window is {window}, not 1..{WINDOW}")
    header = one(ReducerHeader)
    header.job, header.worker, header.window, header.pool = (
        caller.job,
        caller.worker,
        window,
        caller.job * WINDOW % SLOTS,
    )
    header.workers, header.due, header.timeout, header.patience = 1, NEVER, 5 * MINIMUM, PATIENCE_NS
    whole = -(-space.size // VALUES) * VALUES
    return Reducer(
        header=header,
        slots=records(WINDOW, PacketSlot),
        sent=rpcs(WINDOW),
        ring=np.zeros(WINDOW, np.int64),
        model=np.zeros(whole, np.uint32),
        addend=np.zeros(whole, np.int32),
        sums=np.zeros(whole, np.int32),
        floats=np.zeros(whole, np.float32),
        scales=np.zeros(whole // VALUES, np.float64),
        log=records(rows, Row),
        **operand_arrays(largest),
    )
