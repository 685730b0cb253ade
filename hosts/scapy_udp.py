"""CODEC=scapy: Scapy between an agent's state machine and its sockets, slow and readable.

The agent's compiled loop runs as plain Python. Scapy rebuilds each datagram before it is sent, and dissects
each received one before the state machine handles it. So two implementations of the wire format are compared:
where they disagree, a datagram is counted as malformed, or its fields differ from the sent fields.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from foundation.designs.interface import Design
from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hosts.designs import agents_of
from hosts.udp import BURST, Udp, datagram_of, flush, take
from nativekit.plain import plain

F = TypeVar("F", bound=Callable[..., int])

_take, _flush = plain(take), plain(flush)


def make_scapy_loop(loop: F, design: Design) -> F:
    wire = agents_of(design).wire
    rebuilt_outbox = rpcs(BURST).view(np.uint8).reshape(BURST, BUFFER_BYTES)

    def send(udp: Udp, fd: int) -> None:
        for k in range(udp.state.queued):
            vector = udp.state.vectors_out[k]
            datagram = wire.encode_with_scapy(ctypes.string_at(int(vector.start), int(vector.length)))
            rebuilt_outbox[k, : len(datagram)] = np.frombuffer(datagram, np.uint8)
            vector.start, vector.length = rebuilt_outbox[k].ctypes.data, len(datagram)
        _flush(udp, fd)

    def receive(udp: Udp, fd: int, limit: int) -> int:
        n = _take(udp, fd, limit)
        octets = udp.inbox.view(np.uint8).reshape(BURST, BUFFER_BYTES)
        for k in range(n):
            rebuilt_datagram = wire.decode_with_scapy(datagram_of(udp, k))
            octets[k, : len(rebuilt_datagram)] = np.frombuffer(rebuilt_datagram, np.uint8)
            udp.state.messages_in[k].msg_len = len(rebuilt_datagram)
        return n

    return plain(loop, {take: receive, flush: send})
