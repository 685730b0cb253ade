"""Operations on keys as Hotline's RPCs, for designs whose workers send keys to servers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, KEYS, VALUE_BYTES, VALUES, Header
from foundation.protocol.rpc import EMPTY, PUSH, Key, Request, Rpc, encode, is_well_formed
from hosts.keys import KeyRange, KeySpace, range_at
from hotline_agents.worker.window import OperandState, WindowHeader, WindowState, is_answered
from nativekit.bits import swap32
from nativekit.compile import compiled, inlined, int64
from nativekit.records import Ints, Records, Words


class RpcsHeader(WindowHeader):
    n_ps: int
    op: int
    iteration: int
    n_keys: int
    dim: int  # of all rows of the key space, or 0 if dims differ
    dims: int  # a bit for each dim of the key space
    pending: int  # number of unanswered keys of the operation; an empty RPC counts as one
    n_calls: int  # number of RPCs of the operation so far
    push_number: int
    """Number of earlier pushes to the operation's table: the `iteration` of a push to servers' optimisers."""
    word_flags: int  # the flags `SET`, `STATE` and `REPLAY` of the operation's RPCs


class RpcCall:
    ps: int
    home_bits: int  # upper bits of the field `ps`: which home of the PS it passes (`PS_BITS`)
    dim: int  # values of each of its rows


class RpcsState(WindowState, OperandState, Protocol):
    @property
    def header(self) -> RpcsHeader: ...

    @property
    def calls(self) -> Records[RpcCall]:
        """The RPCs of the operation; a slot's `call` is an index into them."""

    @property
    def ranges(self) -> Records[KeyRange]:
        """The ranges of rows of the key space."""

    @property
    def row_starts(self) -> Ints:
        """int64[B + 1]: index of the first value of each key of the operation, and the number of values.

        It is used if the rows of the key space have several dims.
        """

    @property
    def space(self) -> NDArray[np.uint64]:
        """uint64[parameters]: key at each position; empty if every key equals its position."""


def space_of(sparse: NDArray[np.uint64] | None) -> NDArray[np.uint64]:
    # Read-only in both cases, so that the compiler sees one type for dense and sparse key spaces.
    space = (np.zeros(0, np.uint64) if sparse is None else np.asarray(sparse, np.uint64)).view(np.ndarray)
    space.setflags(write=False)
    return space


@inlined
def key_of(state: RpcsState, i: int) -> Key:
    position = int64(state.positions[i])
    return state.space[position] if len(state.space) else np.uint64(position)


@compiled
def peer(state: RpcsState, s: int) -> int:
    return state.calls[state.slots[s].call].ps


@inlined
def write_head(
    state: RpcsState,
    rpc: Rpc,
    op: int,
    call: RpcCall,
    count: int,
    epoch: int,
    seq: int,
    live: int,
    iteration: int,
    t0: int,
) -> int:
    header = state.header
    flags = ((KEYS | VALUES if op == PUSH else KEYS) | header.word_flags) if op != EMPTY else 0
    job, worker = header.job, header.worker
    ps, dim = call.ps | call.home_bits, call.dim
    request = Request(
        op=op, flags=flags, job=job, worker=worker, epoch=epoch, ps=ps, count=count, dim=dim, seq=seq,
        iteration=iteration, live=live, t0=t0,
    )  # fmt: skip
    encode(rpc, request)
    # The length of the whole request in bytes; the caller writes its keys and values.
    return HEADER_BYTES + count * (KEY_BYTES + (VALUE_BYTES * dim if op == PUSH else 0))


@compiled
def find_rows(state: RpcsState, n_keys: int) -> None:
    """Fill `row_starts` for an operation on the first `n_keys` positions, if it is used."""
    start, row_starts = 0, state.row_starts
    if state.header.dim:
        return
    for i in range(n_keys):
        row_starts[i] = start
        start += state.ranges[range_at(state.ranges, int64(state.positions[i]))].dim
    row_starts[n_keys] = start


@inlined
def row_start(state: RpcsState, i: int) -> int:
    """Return the index of the first value of key `i` of the operation; for i = n, the number of values."""
    dim = state.header.dim
    return i * dim if dim else int64(state.row_starts[i])


@inlined
def dim_of(state: RpcsState, i: int) -> int:
    """Return the number of values of key `i` of the operation."""
    dim = state.header.dim
    return dim if dim else int64(state.row_starts[i + 1]) - int64(state.row_starts[i])


@inlined
def copy_row(target: Words, first: int, source: Words, start: int, dim: int) -> None:
    """Copy a row between an RPC, in network order, and an operand."""
    for v in range(dim):
        target[first + v] = swap32(int64(source[start + v]))


def set_dims(header: RpcsHeader, space: KeySpace) -> None:
    header.dim = space.dims[0] if len(space.dims) == 1 else 0
    header.dims = sum(space.dims)  # of powers of two


@inlined
def is_expected(state: RpcsState, rpc: Rpc, h: Header, length: int) -> bool:
    """Return whether a datagram with this header answers a slot's request; count other datagrams."""
    header = state.header
    if length < HEADER_BYTES or not is_well_formed(h, length):
        header.malformed += 1
        return False
    if not is_answered(state, rpc, h):
        header.unexpected += 1
        return False
    return True
