"""An ATP worker's state: its vector, the window of packets, and the cells of its places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc
from hosts.keys import KeySpace
from hosts.worker.window import Slot
from hotline_allreduce.atp.cells import cells_of
from hotline_allreduce.atp.design import settings_of_job
from hotline_allreduce.atp.packet import CELLS, MAX_SEQUENCE, VALUES
from hotline_allreduce.dense.vector import VectorHeader, open_vector
from nativekit.records import Ints, Octets, Records, Words, one_record


class AtpHeader(VectorHeader):
    """Scalars of the state; times in ns."""

    OWN_FIELDS_FIRST = True  # numba confuses record types that begin with the same fields

    first_missing: int  # index of the first chunk without its sum
    gap_end: int  # end of the last resent gap; no other is resent before `first_missing` reaches it
    window_size: int  # current size of the window, in packets; at most `window`
    end_of_window: int  # number of chunks up to the chunk whose sum adapts the window
    is_adaptive: int  # whether the window's size changes
    published_timers: int  # whether timeouts are those of the published code
    last_activity: int  # time of the last arrival or timeout; used with `published_timers`
    has_received: int  # whether anything has arrived in this all-reduce


class AtpWorker(NamedTuple):
    """A worker's calls for one job; a slot's `call` is its chunk, N the number of values of all chunks."""

    header: AtpHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addends of an all-reduce of floats, which the sums replace."""
    float_chunks: Octets  # uint8[N / VALUES]: whether a chunk is sent as floats
    done: Octets  # uint8[N / VALUES]: whether a chunk has its sum
    places: Ints  # int64[WINDOW]: the cell of each place in the window
    is_initial_cell: Octets  # uint8[CELLS]: whether a cell was one of the initial `places`
    log: Records[RpcRow]


def make_worker(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> AtpWorker:
    chunks = -(-space.size // VALUES)
    if chunks > MAX_SEQUENCE:
        raise ValueError(f"expected a vector of at most {MAX_SEQUENCE * VALUES} values, got {space.size}")
    header = one_record(AtpHeader)
    arrays = open_vector(header, caller, n_ps, chunks * VALUES, max_keys, window)
    header.chunk_size, header.is_adaptive = VALUES, 1
    header.published_timers = settings_of_job(caller.job).published_timers
    places, is_initial_cell = cells_of(caller.job, WINDOW), np.zeros(CELLS, np.uint8)
    is_initial_cell[places] = 1
    return AtpWorker(
        header=header, floats=np.zeros(chunks * VALUES, np.float32),
        float_chunks=np.zeros(chunks, np.uint8), done=np.zeros(chunks, np.uint8), places=places,
        is_initial_cell=is_initial_cell, **arrays,
    )  # fmt: skip
