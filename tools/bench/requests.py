from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.protocol import codec
from foundation.protocol.codec import Keys, Message
from foundation.protocol.header import HEADER_BYTES, KEYS, LANES, VALUE_BYTES, VALUES, Header, Op
from foundation.protocol.rpc import ALL_LANES, BUFFER_BYTES, rpcs

JOB, EPOCH = 1, 1
FIRST_WORKER = 1


class Requests(NamedTuple):
    """Requests of one kind and one length; a caller sets their `seq`."""

    op: Op
    rpcs: Any
    """RPC[n]"""
    octets: int  # length of each request in bytes
    answer_octets: int  # length of each answer in bytes


def make_requests(op: Op, keys: Keys) -> Requests:
    """Return pulls or pushes of all lanes; `keys` is [n, LANES]."""
    is_push = op == Op.PUSH
    flags = KEYS | VALUES if is_push else KEYS
    header = Header(
        op=op, flags=flags, job=JOB, worker=FIRST_WORKER, epoch=EPOCH, count=LANES, live=ALL_LANES
    )
    values = np.ones(LANES, np.uint32) if is_push else None
    datagram = codec.build(Message(header, keys[0], values))
    requests = rpcs(len(keys))
    requests.view(np.uint8).reshape(-1, BUFFER_BYTES)[:, : len(datagram)] = np.frombuffer(datagram, np.uint8)
    requests.keys[:] = keys.byteswap()
    return Requests(op, requests, len(datagram), HEADER_BYTES + (0 if is_push else LANES * VALUE_BYTES))
