from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.protocol import codec
from foundation.protocol.codec import Keys, Message
from foundation.protocol.header import HEADER_BYTES, KEYS, VALUE_BYTES, VALUES, Header, Op
from foundation.protocol.rpc import BUFFER_BYTES, rpcs

JOB, EPOCH = 1, 1
FIRST_WORKER = 1


class Requests(NamedTuple):
    """Requests of one kind and one length; a caller sets their `seq`."""

    op: Op
    rpcs: Any
    """RPC[n]"""
    octets: int  # length of each request in bytes
    answer_octets: int  # length of each answer in bytes


def make_requests(op: Op, keys: Keys, dim: int = 1) -> Requests:
    """Return pulls or pushes of rows of `dim` values in all lanes; `keys` is [n, lanes]."""
    is_push, lanes = op == Op.PUSH, keys.shape[1]
    flags = KEYS | VALUES if is_push else KEYS
    header = Header(
        op=op, flags=flags, job=JOB, worker=FIRST_WORKER, epoch=EPOCH, count=lanes, dim=dim,
        live=(1 << lanes) - 1,
    )  # fmt: skip
    values = np.ones(lanes * dim, np.uint32) if is_push else None
    datagram = codec.build(Message(header, keys[0], values))
    requests = rpcs(len(keys))
    requests.view(np.uint8).reshape(-1, BUFFER_BYTES)[:, : len(datagram)] = np.frombuffer(datagram, np.uint8)
    # The keys follow the header; values may begin where a further key could be.
    requests.keys[:, :lanes] = keys.byteswap()
    answer_octets = HEADER_BYTES + (0 if is_push else lanes * dim * VALUE_BYTES)
    return Requests(op, requests, len(datagram), answer_octets)
