"""A SwitchML worker's state: its vector, the sums, and the outstanding packets."""

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
from hotline_allreduce.dense.vector import VectorHeader, open_vector
from hotline_allreduce.switchml.packet import OCTETS, SLOTS, VALUES
from nativekit.records import Ints, Records, Words, one_record


class ReducerHeader(VectorHeader):
    """Scalars of the state; times in ns. A slot's `call` is the number of its packet in the all-reduce."""

    OWN_FIELDS_FIRST = True  # numba confuses record types that begin with the same fields

    first_slot: int  # the first of the job's slots in the switch
    first_packet: int  # number of the all-reduce's first packet, counted across all-reduces
    chunks: int  # number of chunks of the vector
    batch_size: int  # maximum number of outstanding packets
    n_packets: int  # number of packets: one a chunk and, for floats, first a batch with exponents only
    incomplete: int  # number of results that lack the values of a worker
    published_timers: int  # whether the timeout is constant, as published for SwitchML


class Reducer(NamedTuple):
    """A worker's calls for one job (`VectorState`); N: parameters, rounded up to whole chunks."""

    header: ReducerHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints  # not used: the number of a packet decides its slot
    resends: Ints  # slots to send, for the first time or again
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words  # [N]
    vector: Words  # [N]
    floats: NDArray[np.float32]
    """float32[N]: the addend of an all-reduce of floats, which the result replaces."""
    scales: NDArray[np.float64]  # float64[N / VALUES]: scale of each chunk, agreed on by all workers
    log: Records[RpcRow]


def make_reducer(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> Reducer:
    header = one_record(ReducerHeader)
    padded_size = -(-space.size // VALUES) * VALUES
    arrays = open_vector(header, caller, n_ps, padded_size, max_keys, window)
    header.first_slot = caller.job * WINDOW % SLOTS
    arrays["slots"].length = OCTETS  # all packets have this length in bytes
    return Reducer(
        header=header,
        floats=np.zeros(padded_size, np.float32),
        scales=np.zeros(padded_size // VALUES, np.float64),
        **arrays,
    )
