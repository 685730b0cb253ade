"""An emulated service time: RPCs take as long as on a server with configured costs and number of cores.

An RPC occupies the core that becomes free first, for `ns_per_rpc` + lanes * `ns_per_lane`. Its answer is held
until that time has passed, while the loop polls. The real work is part of this time, unless it takes longer.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from foundation.protocol.rpc import BUFFER_BYTES, Rpc, rpcs
from hotline_agents.udp import BURST, NAME_BYTES, Udp, flush, queue
from nativekit.clocks import MONOTONIC, read_clock
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, one_record, records


class _ServiceHeader:
    """The configured cost, and the current RPC; times in ns."""

    ns_per_rpc: int
    ns_per_lane: int
    n_held: int  # number of answers held
    start: int  # when the current RPC starts
    due: int  # when the current RPC ends, and its answer is sent


class _HeldAnswer:
    is_held: int  # whether the entry is in use
    due: int  # when the answer is sent, in ns
    fd: int
    length: int  # of the answer, in bytes
    name: Annotated[Octets, NAME_BYTES]  # struct sockaddr_in of its destination


class Service(NamedTuple):
    header: _ServiceHeader
    free_at: Ints  # int64[cores]: when each core becomes free, in ns
    held_answers: Records[_HeldAnswer]  # [BURST]
    answers: Records[Rpc]  # [BURST]


def make_service(ns_per_rpc: int = 0, ns_per_lane: int = 0, cores: int = 1) -> Service:
    header = one_record(_ServiceHeader)
    header.ns_per_rpc, header.ns_per_lane = ns_per_rpc, ns_per_lane
    return Service(header, np.zeros(cores, np.int64), records(BURST, _HeldAnswer), rpcs(BURST))


@compiled
def has_service_time(service: Service) -> bool:
    """Return whether a service time is configured, until whose end each answer is held."""
    return service.header.ns_per_rpc | service.header.ns_per_lane != 0


@compiled
def assign_core(service: Service, read_ns: int, lanes: int) -> None:
    """Assign an RPC read at `read_ns`, with `lanes` that the switch did not serve, to a core."""
    earliest_core = 0
    for core in range(1, len(service.free_at)):
        if service.free_at[core] < service.free_at[earliest_core]:
            earliest_core = core
    header = service.header
    header.start = max(read_ns, int64(service.free_at[earliest_core]))
    header.due = header.start + header.ns_per_rpc + lanes * header.ns_per_lane
    service.free_at[earliest_core] = header.due


@compiled
def next_slot(service: Service) -> int:
    slot = 0
    while service.held_answers[slot].is_held:
        slot += 1
    return slot


@compiled
def hold_answer(service: Service, slot: int, fd: int, length: int, name: Octets) -> None:
    entry = service.held_answers[slot]
    entry.is_held, entry.due, entry.fd, entry.length = 1, service.header.due, fd, length
    for i in range(NAME_BYTES):
        entry.name[i] = name[i]
    service.header.n_held += 1


@compiled
def send_due_answers(service: Service, udp: Udp) -> None:
    if service.header.n_held == 0:
        return
    now = read_clock(udp.state, MONOTONIC)
    answers = int64(service.answers.ctypes.data)
    for slot in range(BURST):
        entry = service.held_answers[slot]
        if entry.is_held and entry.due <= now:
            queue(udp, answers + slot * BUFFER_BYTES, entry.length, int64(entry.name.ctypes.data))
            flush(udp, entry.fd)
            entry.is_held = 0
            service.header.n_held -= 1
