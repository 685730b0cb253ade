"""Datagrams: the codec, Scapy and the agents must agree on each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import numpy as np

from foundation.protocol import codec
from foundation.protocol.codec import Message
from foundation.protocol.header import HEADER_BYTES, LANES, LAYOUT, NO_KEY, Header, Op
from foundation.protocol.rpc import BUFFER_BYTES, CONTROL, decode, is_well_formed, rpcs
from nativekit.plain import plain
from tests.harness import scapy_messages
from tests.harness.wire import is_rpc
from tools.fuzz.datagrams import answer, rpc
from tools.fuzz.target import Target

_well_formed = plain(is_well_formed)
ROW = rpcs(1)


def run(data: bytes) -> Hashable:
    if not _agents_accept(data):
        codec.parse(data)
        raise AssertionError("the codec accepts a datagram that the agents reject")
    message = codec.parse(data)
    if message.header.op == CONTROL:
        return "CONTROL"
    built = codec.build(message)
    assert built == data, "the datagram built from a parsed one differs from it"
    # Scapy comes last, as it takes as long as all other checks.
    assert _same(scapy_messages.parse(data), message) and scapy_messages.build(message) == data
    return message.header.op, message.header.flags


def _agents_accept(data: bytes) -> bool:
    if len(data) < HEADER_BYTES:
        return False
    length = min(len(data), BUFFER_BYTES)
    ROW.view(np.uint8)[:length] = np.frombuffer(data, np.uint8, length)
    header = cast(Any, decode).plain(ROW[0])
    unsigned = header._replace(t0=int(header.t0) % 2**64)
    assert unsigned == Header._make(LAYOUT.unpack_from(data)), "the agents decode a field differently"
    is_well_formed = bool(_well_formed(header, len(data)))
    assert is_well_formed == is_rpc(unsigned, len(data)), (
        "the agents and `is_rpc` differ on what is well formed"
    )
    return is_well_formed


def _same(one: Message, other: Message) -> bool:
    lanes = ((one.keys, other.keys), (one.values, other.values))
    return one.header == other.header and all(
        a is b if a is None or b is None else np.array_equal(a, b) for a, b in lanes
    )


def seeds() -> list[bytes]:
    some_lanes, all_lanes = [5, NO_KEY, 2**63], list(range(LANES))
    requests = [rpc(op, keys, 64) for op in (Op.PULL, Op.PUSH) for keys in (some_lanes, all_lanes)]
    requests += [rpc(Op.PULL, some_lanes, 65, served=0b100), rpc(Op.EMPTY, [], 66), rpc(Op.CONTROL, [], 67)]
    return requests + [answer(request, served=1, refused=4) for request in requests[:-1]]


TARGET = Target("rpc", run, ("src/foundation/protocol",), seeds)
