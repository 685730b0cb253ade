"""Frames for tests/programs/ecn.p4, which writes its queueing metadata into them."""

from __future__ import annotations

import struct
from random import Random
from typing import NamedTuple

from softswitch.pipeline import ActionCall, ControlPlane, Replica
from switch_harness.constructs import Construct, insert, tail

NOT_ECT, ECT, CE = 0, 2, 3
COPIES = 9
"""Ingress port whose frames are sent twice, by the next port."""
_HEADERS = struct.Struct(">12xH BBHHHBBH8x HHHH")
_PROBE = struct.Struct(">5I6s")
MIN_BYTES = _HEADERS.size + _PROBE.size
_UDP, _PROBE_PORT = 17, 5001
_TOS = 15


class Probe(NamedTuple):
    """Fields of a frame that the switch has sent: its number and queueing metadata; times in µs."""

    number: int
    enq_timestamp: int
    enq_qdepth: int
    deq_timedelta: int
    deq_qdepth: int
    departure: int


def frame(number: int, ecn: int = ECT, priority: int = 0, body: int = 0) -> bytes:
    """Return a frame of a probe and `body` bytes: `MIN_BYTES` + `body` in all."""
    udp = 8 + _PROBE.size + body
    tos = priority << 5 | ecn
    head = _HEADERS.pack(0x0800, 0x45, tos, 20 + udp, 0, 0, 64, _UDP, 0, 4000, _PROBE_PORT, udp, 0)
    return head + _PROBE.pack(number, 0, 0, 0, 0, bytes(6)) + bytes(body)


def read(answer: bytes) -> Probe:
    number, *queue, departure = _PROBE.unpack_from(answer, _HEADERS.size)
    enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth = queue
    departure_us = int.from_bytes(departure, "big")
    return Probe(number, enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth, departure_us)


def is_marked(answer: bytes) -> bool:
    return answer[_TOS] & 3 == CE


def mark_from(pipeline: ControlPlane, port: int, depth: int) -> None:
    insert(pipeline, "Leave.thresholds", (port,), ActionCall("Leave.mark_from", (depth,)))


def forward(pipeline: ControlPlane, port: int, to: int) -> None:
    insert(pipeline, "Send.ports", (port,), ActionCall("Send.forward", (to,)))


def copy(pipeline: ControlPlane, port: int, to: int, count: int) -> None:
    pipeline.replication.write_multicast_group(1, [Replica(to, instance) for instance in range(1, count + 1)])
    insert(pipeline, "Send.ports", (port,), ActionCall("Send.copy", (1,)))


def _prepare(pipeline: ControlPlane) -> None:
    mark_from(pipeline, 2, 3)
    copy(pipeline, COPIES, COPIES + 1, 2)


def _draw(random: Random) -> bytes:
    return frame(random.getrandbits(32), random.randrange(4), random.randrange(8)) + tail(random)


CONSTRUCT = Construct("ecn", _prepare, _draw)
