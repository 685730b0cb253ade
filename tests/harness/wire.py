"""The wire format in plain terms: the rules of an RPC, and requests and answers for tests and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foundation.protocol import codec
from foundation.protocol.codec import Caller, Keys, Message, Values
from foundation.protocol.header import (
    FIRST,
    HEADER_BYTES,
    KEYS,
    LANES,
    NO_KEY,
    REPLAY,
    RESPONSE,
    SECOND,
    SET,
    VALUES,
    VERSION,
    Header,
    Op,
)
from foundation.protocol.register_packing import Packing

MODULUS = 2**32
"""Values are 32-bit fixed point; additions wrap."""
ECHOED = ("op", "job", "worker", "epoch", "ps", "count", "dim", "seq", "iteration", "live", "t0")
"""Fields that an answer repeats from its request."""
_KEY_AND_VALUES = {
    (Op.PULL, KEYS): (8, 0),
    (Op.PULL, KEYS | VALUES): (8, 4),
    (Op.PULL, RESPONSE | VALUES): (0, 4),
    (Op.PUSH, KEYS | VALUES): (8, 4),
    (Op.PUSH, RESPONSE): (0, 0),
    **{(Op.PULL, KEYS | word): (8, 0) for word in (FIRST, SECOND)},
    **{(Op.PUSH, KEYS | VALUES | SET | word): (8, 4) for word in (0, FIRST, SECOND)},
    (Op.PUSH, KEYS | VALUES | REPLAY): (8, 4),
    (Op.EMPTY, 0): (0, 0),
    (Op.EMPTY, RESPONSE): (0, 0),
}
"""Bytes of a lane's key, and of each value of its row."""
LANES_OF_DIM = {1: 32, 4: 32, 8: 16, 16: 8, 32: 4, 64: 2, 128: 1}


def is_rpc(header: Header, length: int) -> bool:
    """Whether a datagram of `length` bytes with this header is an RPC by docs/design.md."""
    op, flags, live, served, refused = header.op, header.flags, header.live, header.served, header.refused
    lanes = set(range(header.count))
    if header.version != VERSION:
        return False
    if op == Op.CONTROL:
        return flags in (0, RESPONSE) and not lanes and not live
    if (op, flags) not in _KEY_AND_VALUES or len(lanes) > LANES_OF_DIM.get(header.dim, -1):
        return False
    used, done, back = ({lane for lane in range(64) if bits >> lane & 1} for bits in (live, served, refused))
    if op == Op.EMPTY:
        can_be_refused = set(range(LANES)) if flags & RESPONSE else set()
        fits = not lanes and not used
    else:
        can_be_refused = used - done if flags & RESPONSE else set()
        fits = bool(used)
    key, value = _KEY_AND_VALUES[Op(op), flags]
    shapes_agree = length == HEADER_BYTES + len(lanes) * (key + header.dim * value)
    return shapes_agree and fits and used <= lanes and done <= used and back <= can_be_refused


def bitmap_of(lanes: NDArray[np.bool_]) -> int:
    """Return the bitmap of up to LANES lanes: bit i is lane i."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


def lanes_in(bitmap: int, count: int) -> NDArray[np.bool_]:
    """Return the first `count` lanes of a bitmap."""
    octets = np.frombuffer(bitmap.to_bytes(LANES // 8, "little"), dtype=np.uint8)
    return np.unpackbits(octets, count=count, bitorder="little").view(np.bool_)


class Sender(Protocol):
    """A worker's or a PS's calls."""

    def transmit(self) -> tuple[bytes | memoryview, int] | None: ...


def sent(sender: Sender) -> list[bytes]:
    """Return all datagrams that are ready."""
    return [bytes(datagram) for datagram, _ in iter(sender.transmit, None)]


def rpc(op: Op, keys: Sequence[int] = (), values: Sequence[int] | None = None, **fields: int) -> bytes:
    """Return a request of these keys, of which those that are not `NO_KEY` are live."""
    live = sum(1 << lane for lane, key in enumerate(keys) if key != NO_KEY)
    flags = (KEYS if keys else 0) | (0 if values is None else VALUES)
    header = Header(op=op, flags=flags, count=len(keys), live=live)._replace(**fields)
    carried = None if values is None else np.array(values, np.uint32)
    return codec.build(Message(header, np.array(keys, np.uint64) if keys else None, carried))


def reply(request: Header, values: ArrayLike = 0, **fields: int) -> bytes:
    """Return an answer to a request; a pull's has these values, or one value in all lanes."""
    is_pull = request.op == Op.PULL
    header = request._replace(**{"flags": RESPONSE | VALUES if is_pull else RESPONSE, **fields})
    carried = np.full(header.count * header.dim, values, np.uint32) if is_pull else None
    return codec.build(Message(header, None, carried))


def requests(
    op: Op, caller: Caller, iteration: int, packing: Packing, keys: Keys, values: Values | None
) -> list[Message]:
    """Return a pull (`values` None) or push of `keys` [size]; seq and t0 are 0."""
    keys_at = np.append(keys, np.uint64(NO_KEY))
    values_at = None if values is None else np.append(values, np.uint32(0))
    return [
        Message(
            Header(
                op=op,
                flags=KEYS if values is None else KEYS | VALUES,
                **caller._asdict(),
                iteration=iteration,
                ps=int(packing.ps[k]),
                count=int(packing.count[k]),
                live=int(packing.live[k]),
            ),
            keys_at[at],
            None if values_at is None else values_at[at],
        )
        for k in range(len(packing))
        for at in [packing.position[k, : packing.count[k]]]
    ]


def answers(header: Header, request: Header) -> bool:
    """Whether a header answers this request: it repeats the fields in `ECHOED`."""
    echoes = all(getattr(header, field) == getattr(request, field) for field in ECHOED)
    return bool(header.flags & RESPONSE) and echoes
