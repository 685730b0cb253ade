"""A server returns numbers, and later sends each worker's last one again, unasked."""

from __future__ import annotations

from typing import Any, NamedTuple

from foundation.protocol.rpc import BUFFER_BYTES, Rpc, rpcs
from hotline_agents.interface import NEVER, NO_REPLY, NOTHING, ServerOps, register_server_ops
from nativekit.compile import compiled, int64
from nativekit.records import record, records
from tests.designs.echo.worker import ANSWER, ASKED, EXTRA, OCTETS

LATER_NS = 1_000_000
ME = record("ps", "n_ps", "workers", "n_callers", "journal_length", "due", "asked", "extra", "next", "ns")


class Mirror(NamedTuple):
    """A server's state: the ring of workers that it greets in turn."""

    header: Any
    sent: Any


def make_mirror(ps: int, n_ps: int, workers: int) -> Mirror:
    state = Mirror(records(1, ME)[0], rpcs(1))
    state.header.ps, state.header.n_ps, state.header.workers, state.header.due = ps, n_ps, workers, NEVER
    return state


@compiled
def handle(server: Mirror, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    """Send a number back."""
    if length != OCTETS or rpc.head[1] != ASKED:
        return NO_REPLY
    answer.head[0], answer.head[1] = rpc.head[0], ANSWER
    server.header.asked += 1
    server.header.due = min(int64(server.header.due), arrival + LATER_NS)
    return OCTETS


@compiled
def transmit(server: Mirror, now: int) -> int:
    """Return the next greeting: each worker gets one when the timer is due."""
    header = server.header
    if header.extra == 0:
        return NOTHING
    header.extra -= 1
    header.next = header.extra
    server.sent[0].head[0], server.sent[0].head[1] = 0, EXTRA
    return 0


@compiled
def wake(server: Mirror, now: int) -> None:
    server.header.due, server.header.extra = NEVER, server.header.workers


@compiled
def address(server: Mirror, s: int) -> int:
    return int64(server.sent.ctypes.data) + s * BUFFER_BYTES


@compiled
def octets(_server: Mirror, _slot: int) -> int:
    return OCTETS


@compiled
def peer(server: Mirror, _slot: int) -> int:
    return int64(server.header.n_ps + server.header.next)


@compiled
def lanes(_server: Mirror, _rpc: Rpc) -> int:
    return 0


@compiled
def stamp(_server: Mirror, _answer: Rpc, _proc: int, _queue: int) -> None:
    """Log nothing: a number has no room for times."""


@compiled
def charge(server: Mirror, _answer: Rpc, ns: int) -> None:
    """Count nothing: there is one job."""
    server.header.ns += ns


@compiled
def share_cpu(server: Mirror, ns: int) -> None:
    """Count nothing: there is one job."""
    server.header.ns += ns


@compiled
def needs_room(_server: Mirror, _datagrams: int) -> bool:
    return False


SERVER = register_server_ops(
    Mirror,
    ServerOps(
        handle=handle,
        lanes=lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_room,
        transmit=transmit,
        address=address,
        octets=octets,
        peer=peer,
        wake=wake,
    ),
)
