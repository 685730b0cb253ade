"""A SwitchML worker's state: its vector, the sums, and the outstanding packets."""

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
from hosts.worker.timer import INITIAL_TIMEOUT_NS
from hosts.worker.vectors import STALL_TIMEOUT_NS
from nativekit.records import Ints, Records, Words, one, records


class ReducerHeader:
    """Scalars of the state; times in ns."""

    job: int
    worker: int
    window: int
    first_slot: int  # the first of the job's slots in the switch
    workers: int
    op: int
    iteration: int
    n_keys: int
    calls: int  # `n_packets` of an all-reduce; 0 for other operations
    pending: int  # number of packets without a result
    due: int  # time of the next `wake`
    number: int  # number of all-reduces so far
    first_packet: int  # number of the all-reduce's first packet, counted across all-reduces
    chunks: int  # number of chunks of the vector
    batch: int  # maximum number of outstanding packets
    n_packets: int  # number of packets of the all-reduce: `chunks`, for floats `chunks + batch`
    is_float: int
    next_ready: int  # index in `ring` of the next slot to send
    n_ready: int  # number of slots in `ring`
    last_arrival: int  # time of the first transmission or of the last result; 0 before
    stall_timeout: int
    stalled: int  # whether no result came for `stall_timeout`
    stalled_at: int
    incomplete: int  # number of results that lack the values of a worker
    backed_off_at: int
    timeout: int  # retransmission timeout
    published_timers: int  # whether the timeout is constant, as published for SwitchML
    srtt: float
    rttvar: float
    rows: int  # number of rows in the log
    unreplayed: int  # always 0: the design replays no updates
    malformed: int
    unexpected: int
    retransmissions: int


class PacketSlot:
    """A slot of the window; times in ns."""

    busy: int  # whether its packet has no result yet
    packet: int  # number of its packet in the all-reduce
    t0: int  # time of the first transmission
    sent: int  # time of the last transmission
    deadline: int
    attempts: int
    queued: int  # whether it is in `ring`


class Reducer(NamedTuple):
    """A worker's calls for one job (`LockstepState`); N: parameters, rounded up to whole chunks."""

    header: ReducerHeader
    slots: Records[PacketSlot]  # [WINDOW]
    sent: Records[Rpc]  # [WINDOW]
    ring: Ints  # int64[WINDOW]: slots to send
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    addend: NDArray[np.int32]  # [N]
    sums: NDArray[np.int32]  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addend of an all-reduce of floats, which the result replaces."""
    scales: NDArray[np.float64]  # float64[N / VALUES]: scale of each chunk, agreed on by all workers
    log: Records[Row]


def make_reducer(
    caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int, rows: int = 1024
) -> Reducer:
    if not 1 <= window <= WINDOW:
        raise ValueError(f"window: expected 1 to {WINDOW}, got {window}")
    header = one(ReducerHeader)
    header.job, header.worker, header.window = caller.job, caller.worker, window
    header.first_slot = caller.job * WINDOW % SLOTS
    header.workers, header.due = 1, NEVER
    header.timeout, header.stall_timeout = INITIAL_TIMEOUT_NS, STALL_TIMEOUT_NS
    padded_size = -(-space.size // VALUES) * VALUES
    return Reducer(
        header=header,
        slots=records(WINDOW, PacketSlot),
        sent=rpcs(WINDOW),
        ring=np.zeros(WINDOW, np.int64),
        model=np.zeros(padded_size, np.uint32),
        addend=np.zeros(padded_size, np.int32),
        sums=np.zeros(padded_size, np.int32),
        floats=np.zeros(padded_size, np.float32),
        scales=np.zeros(padded_size // VALUES, np.float64),
        log=records(rows, Row),
        **operand_arrays(max_keys),
    )
