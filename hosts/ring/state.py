"""A worker's state in a ring: its vector, what goes to the next worker, and what has come."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.columns import Row
from foundation.protocol.codec import Caller
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import Rpc, rpcs
from hosts.dense.packet import LEAST_SIZE, WORKERS
from hosts.dense.vector import VectorHeader, open_vector
from hosts.keys import KeySpace
from hosts.worker.window import Slot
from nativekit.records import Ints, Octets, Records, Words, one, records

ACKS = 256
"""That wait at most; of more the chunks come again."""
OUT = 16
"""Datagrams of acknowledgements: more than leave in a burst."""


class MemberHeader(VectorHeader):
    """The record of numbers."""

    # So that numba does not take the record for one of another design's, with more fields behind.
    OWN_FIELDS_FIRST = True

    part: int
    """Values of a part."""
    in_part: int
    """Chunks of a part."""
    next_ack: int
    """The acknowledgement that has waited longest."""
    acks: int
    """Acknowledgements that wait to be sent."""
    next_out: int


class Ack:
    """An acknowledgement to be sent."""

    number: int
    chunk: int
    workers: int


class Early:
    """Length of a chunk that has come early; 0 for none."""

    length: int


class Member(NamedTuple):
    """A worker's calls for one job; N is the size of its vector, B that of an operation."""

    header: MemberHeader
    """A record of numbers."""
    slots: Records[Slot]
    """SLOT[WINDOW]: `call` is the chunk."""
    sent: Records[Rpc]
    """RPC[WINDOW + OUT]: each slot's datagram, for as long as it may be sent again; then acknowledgements."""
    free: Ints
    """int64[WINDOW], as `hosts.worker.window` has it."""
    resends: Ints
    """int64[WINDOW], likewise."""
    got: Octets
    """uint8[c]: the chunks that have come, of as many as there are in a ring of 32."""
    waiting: Records[Ack]
    """ACK[ACKS]: a ring."""
    early: Records[Rpc]
    """RPC[WINDOW]: chunks of the next vectors, whose sender has begun before this worker."""
    early_lengths: Records[Early]
    """EARLY[WINDOW]: of them; 0 for none."""
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
    vector: Words
    """uint32[N]: addends, and sums in their place."""
    log: Records[Row]
    """ROW[n]: chunks that have arrived, the first header.rows."""


def make_member(
    caller: Caller, n_ps: int, space: KeySpace, largest: int, window: int, rows: int = 1024
) -> Member:
    """A worker that is idle, with a vector of so many values; raises `ValueError` for a window that cannot
    be."""
    header = one(MemberHeader)
    # Of W workers 2 (W - 1) steps, of as many chunks as ceil(N / W) values take.
    chunks = 2 * (space.size // LEAST_SIZE + 2 * WORKERS)
    return Member(
        header=header,
        got=np.zeros(chunks, np.uint8),
        waiting=records(ACKS, Ack),
        early=rpcs(WINDOW),
        early_lengths=records(WINDOW, Early),
        **open_vector(header, caller, n_ps, space.size, largest, window, rows, OUT),
    )
