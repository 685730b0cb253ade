"""A worker's request as one Ethernet frame, for tests of P4 programs and for `softswitch explain`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from foundation.protocol import addressing, codec, frames
from foundation.protocol.header import HOTLINE_PORT, KEYS, LANES, PS_BITS, VALUES, WINDOW_BITS, Header, Op

FIRST_SEQ = 1 << WINDOW_BITS
"""Sequence number of a worker's first request: slot 0 of its window, used once."""
_OPS = {"pull": Op.PULL, "push": Op.PUSH}


def request_frame(
    op: Literal["pull", "push"],
    keys: Sequence[int],
    values: Sequence[int] | None = None,
    *,
    job: int,
    dim: int = 1,
    worker: int = 1,
    server: int = 1,
    home: int = 0,
    epoch: int = 1,
    seq: int = FIRST_SEQ,
) -> bytes:
    """Return the frame of a pull of `keys`, or of a push that adds `values` to them.

    Keys are 64-bit numbers, one for each lane. Values are signed 32-bit fixed-point numbers, `dim` for each
    key. `job` is the number of an arm. Workers and servers are numbered from 1; addresses are those of runs,
    where the switch has the service address of a server. `home` is the index of the switch with the hot set,
    if the server has several. Raises `ValueError`.
    """
    if op not in _OPS:
        raise ValueError(f"op: expected 'pull' or 'push', got {op!r}")
    if not 1 <= len(keys) <= LANES:
        raise ValueError(f"keys: expected 1 to {LANES}, got {len(keys)}")
    value_count = len(keys) * dim if op == "push" else 0
    if len(values or ()) != value_count:
        raise ValueError(f"values of a {op} of {len(keys)}: expected {value_count}, got {len(values or ())}")
    header = Header(
        op=_OPS[op],
        flags=KEYS | VALUES if op == "push" else KEYS,
        job=job,
        worker=worker,
        epoch=epoch,
        ps=server - 1 | home << PS_BITS,
        count=len(keys),
        dim=dim,
        seq=seq,
        live=(1 << len(keys)) - 1,
    )
    carried = None if values is None else np.array(values, np.int64).astype(np.uint32)
    datagram = codec.build(codec.Message(header, np.array(keys, np.uint64), carried))
    sender, service = addressing.worker(worker), addressing.service(server)
    source = frames.UdpEndpoint(sender.mac, sender.address, addressing.worker_udp_port(job))
    destination = frames.UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
    return frames.build(frames.UdpFrame(source, destination, datagram))
