"""A worker's state in a ring: its vector, its outgoing chunks, and the received chunks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.keys import KeySpace
from hosts.worker.window import Slot
from hotline_allreduce.dense.packet import MAX_WORKERS, MIN_SIZE
from hotline_allreduce.dense.vector import VectorHeader, open_vector
from nativekit.records import Ints, Octets, Records, Words, one_record, records

MAX_ACKS = 256
"""Maximum number of waiting acknowledgements; chunks that come while the queue is full are retransmitted."""
ACK_BUFFERS = 16
"""Number of acknowledgement buffers, more than a burst sends."""


class MemberHeader(VectorHeader):
    # numba confuses record types that begin with the same fields, so each design puts its own fields first.
    OWN_FIELDS_FIRST = True

    part_size: int  # number of values of a part
    chunks_per_part: int  # number of chunks of a part
    next_ack: int  # index of the first entry of the ring buffer `waiting_acks`
    n_acks: int  # number of entries in that ring buffer
    next_buffer: int  # index of the acknowledgement buffer to fill next


class Ack:
    round_number: int  # number of the all-reduce
    chunk: int  # number of the chunk in it
    workers: int  # number of workers that add up their vectors


class EarlyLength:
    """Length of an early chunk in bytes; 0 if the entry is unused."""

    length: int


class RingMember(NamedTuple):
    """A worker's calls for one job (`VectorState`, `WindowState`); a slot's `call` is its chunk."""

    header: MemberHeader
    slots: Records[Slot]
    sent: Records[Rpc]  # [WINDOW + ACK_BUFFERS]: chunks by slot, then acknowledgements
    free: Ints
    resends: Ints
    chunk_received: Octets  # uint8[c]: whether each chunk has come, with room for 32 workers
    waiting_acks: Records[Ack]  # [MAX_ACKS], a ring buffer
    early_chunks: Records[Rpc]
    """[WINDOW]: received chunks of the next vector, whose all-reduce this worker has not begun."""
    early_lengths: Records[EarlyLength]  # [WINDOW]
    positions: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    model: Words
    vector: Words
    log: Records[RpcRow]


def make_member(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> RingMember:
    header = one_record(MemberHeader)
    # 2 (W - 1) steps of up to N / (W MIN_SIZE) + 2 chunks are at most 2 (N / MIN_SIZE + 2 W) for W workers.
    chunks = 2 * (space.size // MIN_SIZE + 2 * MAX_WORKERS)
    return RingMember(
        header=header,
        chunk_received=np.zeros(chunks, np.uint8),
        waiting_acks=records(MAX_ACKS, Ack),
        early_chunks=rpcs(WINDOW),
        early_lengths=records(WINDOW, EarlyLength),
        **open_vector(header, caller, n_ps, space.size, max_keys, window, ACK_BUFFERS),
    )
