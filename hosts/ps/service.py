"""A configured service time: the cost of an RPC on another server, with any number of cores.

An RPC occupies the first core to become free for `ns_per_rpc` + lanes * `ns_per_lane`. Its answer is
held until then, while the loop polls. The real work on an RPC is part of this time, unless it takes longer.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from foundation.protocol.rpc import BUFFER_BYTES, Rpc, rpcs
from hosts.udp import BURST, MONOTONIC, NAME_BYTES, Udp, clock, flush, queue
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, one, records


class _Cost:
    """The configured cost, and the current RPC; times in ns."""

    ns_per_rpc: int
    ns_per_lane: int
    held: int  # number of answers held
    start: int  # when the current RPC starts
    due: int


class _HeldAnswer:
    is_held: int
    due: int
    fd: int
    octets: int
    name: Annotated[Octets, NAME_BYTES]


class Service(NamedTuple):
    header: _Cost
    free_at: Ints  # int64[cores]: when each core becomes free, in ns
    held: Records[_HeldAnswer]  # [BURST]
    answers: Records[Rpc]  # [BURST]


def make_service(ns_per_rpc: int = 0, ns_per_lane: int = 0, cores: int = 1) -> Service:
    header = one(_Cost)
    header.ns_per_rpc, header.ns_per_lane = ns_per_rpc, ns_per_lane
    return Service(header, np.zeros(cores, np.int64), records(BURST, _HeldAnswer), rpcs(BURST))


@compiled
def is_configured(service: Service) -> bool:
    return int64(service.header.ns_per_rpc | service.header.ns_per_lane) != 0


@compiled
def free_slots(service: Service) -> int:
    return int64(BURST - service.header.held)


@compiled
def assign_core(service: Service, read: int, lanes: int) -> None:
    """Assign an RPC read at `read`, of `lanes` not served by the switch, to the first free core."""
    first = int64(0)
    for core in range(1, len(service.free_at)):
        if service.free_at[core] < service.free_at[first]:
            first = core
    header = service.header
    header.start = max(read, int64(service.free_at[first]))
    header.due = header.start + header.ns_per_rpc + lanes * header.ns_per_lane
    service.free_at[first] = header.due


@compiled
def next_slot(service: Service) -> int:
    at = int64(0)
    while service.held[at].is_held:
        at += 1
    return at


@compiled
def hold(service: Service, at: int, fd: int, octets: int, name: Octets) -> None:
    held = service.held[at]
    held.is_held, held.due, held.fd, held.octets = 1, service.header.due, fd, octets
    for i in range(NAME_BYTES):
        held.name[i] = name[i]
    service.header.held += 1


@compiled
def release(service: Service, udp: Udp) -> None:
    if service.header.held == 0:
        return
    now = clock(udp, MONOTONIC)
    answers = int64(service.answers.ctypes.data)
    for at in range(BURST):
        held = service.held[at]
        if held.is_held and held.due <= now:
            queue(udp, answers + at * BUFFER_BYTES, int64(held.octets), int64(held.name.ctypes.data))
            flush(udp, int64(held.fd))
            held.is_held = 0
            service.header.held -= 1
