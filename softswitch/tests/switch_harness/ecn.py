"""Frames for tests/programs/ecn.p4, which writes into them what befell them in a queue."""

from __future__ import annotations

import struct
from random import Random
from typing import NamedTuple

from softswitch.pipeline import ActionCall, ControlPlane, Replica
from switch_harness.constructs import Construct, insert, tail

NOT_ECT, ECT, CE = 0, 2, 3
COPIES = 9
"""A port whose frames leave as two, both by the next."""
_HEADERS = struct.Struct(">12xH BBHHHBBH8x HHHH")
_PROBE = struct.Struct(">5I6s")
LEAST = _HEADERS.size + _PROBE.size
_UDP, _PROBE_PORT = 17, 5001
_TOS = 15


class Probe(NamedTuple):
    """Fields of a frame that has left: its number, and its queueing metadata; times in µs."""

    number: int
    enq_timestamp: int
    enq_qdepth: int
    deq_timedelta: int
    deq_qdepth: int
    left: int


def frame(number: int, ecn: int = ECT, priority: int = 0, body: int = 0) -> bytes:
    """A probe with `body` bytes behind it: `LEAST` + `body` in all."""
    udp = 8 + _PROBE.size + body
    tos = priority << 5 | ecn
    head = _HEADERS.pack(0x0800, 0x45, tos, 20 + udp, 0, 0, 64, _UDP, 0, 4000, _PROBE_PORT, udp, 0)
    return head + _PROBE.pack(number, 0, 0, 0, 0, bytes(6)) + bytes(body)


def read(answer: bytes) -> Probe:
    """The probe in a frame that has left."""
    number, *queue, left = _PROBE.unpack_from(answer, _HEADERS.size)
    enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth = queue
    left_us = int.from_bytes(left, "big")
    return Probe(number, enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, left_us)


def is_marked(answer: bytes) -> bool:
    """Whether it has experienced congestion."""
    return answer[_TOS] & 3 == CE


def mark_from(pipeline: ControlPlane, port: int, depth: int) -> None:
    """Mark what found so many waiting for a port, or more."""
    insert(pipeline, "Leave.thresholds", (port,), ActionCall("Leave.mark_from", (depth,)))


def forward(pipeline: ControlPlane, port: int, to: int) -> None:
    """Send what comes in by a port not to the next one but to this."""
    insert(pipeline, "Send.ports", (port,), ActionCall("Send.forward", (to,)))


def copy(pipeline: ControlPlane, port: int, to: int, count: int) -> None:
    """Send what comes in by a port as so many copies to another."""
    pipeline.write_multicast_group(1, [Replica(to, instance) for instance in range(1, count + 1)])
    insert(pipeline, "Send.ports", (port,), ActionCall("Send.copy", (1,)))


def _prepare(pipeline: ControlPlane) -> None:
    mark_from(pipeline, 2, 3)
    copy(pipeline, COPIES, COPIES + 1, 2)


def _draw(random: Random) -> bytes:
    return frame(random.getrandbits(32), random.randrange(4), random.randrange(8)) + tail(random)


CONSTRUCT = Construct("ecn", _prepare, _draw)
