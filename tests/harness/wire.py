"""The wire format in plain terms: what is an RPC, and the requests and answers that the models exchange."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from foundation.protocol.codec import Caller, Keys, Message, Values
from foundation.protocol.header import (
    HEADER_BYTES,
    KEYS,
    LANES,
    NO_KEY,
    RESPONSE,
    VALUES,
    VERSION,
    Header,
    Op,
)
from foundation.protocol.packing import Packing

MODULUS = 2**32
"""Values are 32-bit fixed point; additions wrap."""
ECHOED = ("op", "job", "worker", "epoch", "ps", "count", "seq", "iteration", "live", "t0")
"""What an answer repeats from its request."""
_LANE_BYTES = {
    (Op.PULL, KEYS): 8,
    (Op.PULL, KEYS | VALUES): 12,
    (Op.PULL, RESPONSE | VALUES): 4,
    (Op.PUSH, KEYS | VALUES): 12,
    (Op.PUSH, RESPONSE): 0,
    (Op.EMPTY, 0): 0,
    (Op.EMPTY, RESPONSE): 0,
}


class Codec(Protocol):
    def parse(self, datagram: bytes | memoryview, /) -> Message: ...

    def build(self, message: Message, /) -> bytes: ...


def is_rpc(header: Header, length: int) -> bool:
    """Whether a datagram of `length` bytes with this header is an RPC by docs/design.md."""
    op, flags, live, served, refused = header.op, header.flags, header.live, header.served, header.refused
    lanes = set(range(header.count))
    if header.version != VERSION:
        return False
    if op == Op.CONTROL:
        return flags in (0, RESPONSE) and not lanes and not live
    if (op, flags) not in _LANE_BYTES or len(lanes) > LANES or header.reserved:
        return False
    used, done, back = ({lane for lane in range(64) if bits >> lane & 1} for bits in (live, served, refused))
    if op == Op.EMPTY:
        can_be_refused = set(range(LANES)) if flags & RESPONSE else set()
        fits = not lanes and not used
    else:
        can_be_refused = used - done if flags & RESPONSE else set()
        fits = bool(used)
    shapes_agree = length == HEADER_BYTES + len(lanes) * _LANE_BYTES[Op(op), flags]
    return shapes_agree and fits and used <= lanes and done <= used and back <= can_be_refused


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
