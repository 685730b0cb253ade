"""Operations on keys as Hotline's RPCs, for designs whose workers send keys to servers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import HEADER_BYTES, KEY_BYTES, KEYS, VALUE_BYTES, VALUES, Header
from foundation.protocol.rpc import EMPTY, PUSH, Key, Request, Rpc, encode, is_well_formed
from hosts.worker.window import OperandState, WindowHeader, WindowState, is_answered
from nativekit.compile import compiled, inlined, int64
from nativekit.records import Records


class RpcsHeader(WindowHeader):
    n_ps: int
    op: int
    iteration: int
    n_keys: int
    pending: int  # number of unanswered keys of the operation; an empty RPC counts as one
    n_calls: int  # number of RPCs of the operation so far
    push_number: int
    """Number of earlier pushes to the operation's table: the `iteration` of a push to servers' optimisers."""
    word_flags: int  # the flags `SET`, `STATE` and `REPLAY` of the operation's RPCs


class RpcCall:
    ps: int


class RpcsState(WindowState, OperandState, Protocol):
    @property
    def header(self) -> RpcsHeader: ...

    @property
    def calls(self) -> Records[RpcCall]:
        """The RPCs of the operation; a slot's `call` is an index into them."""

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
    return int64(state.calls[state.slots[s].call].ps)


@inlined
def write_head(
    state: RpcsState, rpc: Rpc, op: int, ps: int, count: int, seq: int, live: int, iteration: int, t0: int
) -> int:
    header = state.header
    flags = ((KEYS | VALUES if op == PUSH else KEYS) | int64(header.word_flags)) if op != EMPTY else 0
    job, worker, epoch = int64(header.job), int64(header.worker), int64(header.epoch)
    request = Request(
        op=op, flags=flags, job=job, worker=worker, epoch=epoch, ps=ps, count=count, seq=seq,
        iteration=iteration, live=live, t0=t0,
    )  # fmt: skip
    encode(rpc, request)
    # The length of the whole request in bytes; the caller writes its keys and values.
    return HEADER_BYTES + count * (KEY_BYTES + VALUE_BYTES if op == PUSH else KEY_BYTES)


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
