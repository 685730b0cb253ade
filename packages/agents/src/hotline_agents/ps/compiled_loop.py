"""A server's compiled loop: it answers datagrams with its design's functions until Python is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from foundation.compiled import loop
from foundation.protocol.codec import MAX_U32
from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hosts.sockets import Address
from hotline_agents.interface import COMMAND as COMMAND_OUTCOME
from hotline_agents.interface import FOREIGN as FOREIGN_OUTCOME
from hotline_agents.interface import NEVER, NOTHING, SERVER_OPS, ServerState
from hotline_agents.ps.ops import server_states
from hotline_agents.ps.service_time import (
    Service,
    assign_core,
    has_service_time,
    hold_answer,
    next_slot,
    send_due_answers,
)
from hotline_agents.udp import (
    BURST,
    NAME_BYTES,
    Udp,
    arrival,
    flush,
    length_of,
    name_of,
    queue,
    socket_names,
    take,
)
from nativekit.bits import swap32
from nativekit.clocks import MONOTONIC, THREAD_CPU, measure_offset, read_clock
from nativekit.compile import compiled, inlined, int64
from nativekit.libc import EPOLL_EVENT, epoll_wait
from nativekit.records import Ints, Octets, Records, check_field_names, one_record, records
from nativekit.reference import as_ref

(
    handle, lanes, stamp, charge, share_cpu, needs_room, transmit, datagram_address, octets, peer, wake,
    prefetch_index, prefetch_values,
) = SERVER_OPS  # fmt: skip
TIMED_OUT, COMMAND, SIGNAL, OWN_ANSWER, HAS_MARKS, NEEDS_ROOM, MUST_PERSIST = 0, 1, 2, 3, 4, 5, 6
"""Why the loop returned: nothing came for a while; a command; a signal; an answer to the server's own RPCs;
marked datagrams in the inbox; the server needs room; the changes of a burst must be persisted."""
ANSWERED, FOR_CONTROL, NEW_CALLER, FOREIGN = 0, 1, 2, 3
"""Marks of the datagrams of a burst; FOREIGN ones are of another version of the wire format."""
EVENTS = 64  # maximum number of ready descriptors that an epoll_wait returns
_MAX_WAIT_NS = 1_000_000_000
_NS_PER_MS = 1_000_000

assert EPOLL_EVENT.fields is not None
_EVENT = check_field_names(
    np.dtype(
        {
            "names": ["fd"],
            "formats": ["i4"],
            "offsets": [int(EPOLL_EVENT.fields["data"][1])],
            "itemsize": EPOLL_EVENT.itemsize,
        }
    )
)  # struct epoll_event; numpy's records have an attribute `data` already


class _Event:
    fd: int


class _SourcesState:
    """File descriptors, -1 for none, and the state of the last burst."""

    epoll: int
    commands: int
    signals: int
    own_socket: int  # socket of the RPCs that the server's Python part makes, and of their answers
    data_socket: int  # socket that receives requests, and sends the datagrams of `transmit`
    fd: int
    """Socket of the last burst, of which `n_received` datagrams were read."""
    n_received: int
    n_bursts: int  # number of bursts so far, each of one datagram or more
    has_unsent: int  # whether the answers to that burst must be sent once they are persisted
    has_marks: int  # whether some datagrams of that burst are marked
    persist_start_ns: int  # when the loop returned to persist that burst, in ns
    n_delayed: int  # number of datagrams that a commit delayed; `delay_ns` is the sum of the delays
    delay_ns: int


class Sources(NamedTuple):
    state: _SourcesState
    events: Records[_Event]  # [EVENTS]
    marks: Ints  # [BURST]
    peers: Octets  # uint8[peers, NAME_BYTES], a struct sockaddr_in each


def make_sources(epoll: int, peers: Sequence[Address] = ()) -> Sources:
    state = one_record(_SourcesState)
    for name in ("commands", "signals", "own_socket", "data_socket", "fd"):
        setattr(state, name, -1)
    state.epoll = epoll
    return Sources(state, records(EVENTS, _EVENT), np.zeros(BURST, np.int64), socket_names(peers))


@loop(server_states)
def serve(server: ServerState, service: Service, udp: Udp, sources: Sources, deadline_ns: int) -> int:
    """Answer datagrams until Python is needed, nothing has come for a second, or `deadline_ns` has come.

    The server's own exchanges, at `header.due`, need no Python.
    """
    server, service = as_ref(server), as_ref(service)
    udp, sources = as_ref(udp), as_ref(sources)
    state, events = sources.state, sources.events
    while True:
        if state.has_unsent:
            state.has_unsent = 0
            send_persisted_answers(service, udp, sources)
            if state.has_marks:
                return HAS_MARKS
        if needs_room(server, BURST):
            return NEEDS_ROOM
        send_due_answers(service, udp)
        if server.header.due != NEVER:
            wake(server, read_clock(udp.state, MONOTONIC))
            if server.header.journal_length:
                return MUST_PERSIST
        send_unrequested(server, udp, sources)
        timeout_ms = wait_ms(service, udp, min(deadline_ns, server.header.due))
        ready = int64(epoll_wait(state.epoll, events.ctypes.data, EVENTS, timeout_ms))
        if ready <= 0 and service.header.n_held == 0:  # held answers are sent at the start of the loop
            if server.header.due < deadline_ns and read_clock(udp.state, MONOTONIC) < deadline_ns:
                continue  # `wake` is due, without Python
            return TIMED_OUT
        for e in range(ready):
            fd = int64(events[e].fd)
            if fd == state.commands:
                return COMMAND
            if fd == state.signals:
                return SIGNAL
            if fd == state.own_socket:
                return OWN_ANSWER
            has_marks = handle_burst(server, service, udp, sources, fd)
            if server.header.journal_length:
                state.has_unsent, state.has_marks = 1, has_marks
                state.persist_start_ns = read_clock(udp.state, MONOTONIC)
                return MUST_PERSIST
            flush(udp, fd)
            if has_marks:
                return HAS_MARKS
            if needs_room(server, BURST):
                return NEEDS_ROOM


@compiled
def send_persisted_answers(service: Service, udp: Udp, sources: Sources) -> None:
    """Send the answers to a persisted burst; without emulated service time, add the commit to `ps_proc`."""
    state = sources.state
    n_received = state.n_received
    commit_ns = read_clock(udp.state, MONOTONIC) - state.persist_start_ns
    state.n_delayed += n_received
    state.delay_ns += n_received * commit_ns
    if not has_service_time(service):
        for k in range(n_received):
            answer = udp.outbox[k]
            answer.ps_proc = swap32(min(swap32(answer.ps_proc) + commit_ns, MAX_U32))
    flush(udp, state.fd)


@compiled
def send_unrequested(server: ServerState, udp: Udp, sources: Sources) -> None:
    """Send the datagrams of `transmit`, which are not the answer to a received datagram."""
    names, n_queued = int64(sources.peers.ctypes.data), 0
    s = transmit(server, read_clock(udp.state, MONOTONIC))
    while s != NOTHING:
        queue(udp, datagram_address(server, s), octets(server, s), names + peer(server, s) * NAME_BYTES)
        n_queued += 1
        if n_queued == BURST:
            flush(udp, sources.state.data_socket)
            n_queued = 0
        s = transmit(server, read_clock(udp.state, MONOTONIC))
    if n_queued:
        flush(udp, sources.state.data_socket)


@compiled
def wait_ms(service: Service, udp: Udp, deadline_ns: int) -> int:
    """Return the time to wait until `deadline_ns`, in ms rounded up, at most a second."""
    if service.header.n_held:
        return 0
    remaining_ns = min(deadline_ns - read_clock(udp.state, MONOTONIC), _MAX_WAIT_NS)
    return max(remaining_ns + _NS_PER_MS - 1, 0) // _NS_PER_MS


@compiled
def answer_burst(server: ServerState, service: Service, udp: Udp, sources: Sources, fd: int) -> bool:
    has_marks = handle_burst(server, service, udp, sources, fd)
    flush(udp, fd)
    return has_marks


@compiled
def handle_burst(server: ServerState, service: Service, udp: Udp, sources: Sources, fd: int) -> bool:
    # Processing time is measured for each datagram, but CPU time for the burst: it takes a system call.
    n = take(udp, fd, BURST - service.header.n_held)  # each needs a slot for its answer
    sources.state.fd, sources.state.n_received = fd, n
    if n == 0:
        return False
    sources.state.n_bursts += 1
    has_marks = False
    cpu_start_ns = read_clock(udp.state, THREAD_CPU)
    read_ns = measure_offset(udp.state)
    for k in range(n):
        prefetch_next_datagrams(server, udp.inbox, k, n)
        n_callers_before = server.header.n_callers
        outcome = answer_datagram(server, service, udp, fd, k, read_ns)
        mark = ANSWERED
        if outcome == COMMAND_OUTCOME:
            mark = FOR_CONTROL
        elif outcome == FOREIGN_OUTCOME:
            mark = FOREIGN
        if server.header.n_callers > n_callers_before:  # `handle` has added this caller to the table
            mark = NEW_CALLER
        sources.marks[k] = mark
        has_marks |= mark != ANSWERED
        read_ns = read_clock(udp.state, MONOTONIC)
    share_cpu(server, 0 if has_service_time(service) else read_clock(udp.state, THREAD_CPU) - cpu_start_ns)
    return has_marks


@inlined
def prefetch_next_datagrams(server: ServerState, inbox: Records[Rpc], k: int, n: int) -> None:
    # The values of a datagram are found by its keys' entries in the index, which the last call prefetched.
    if k + 2 < n:
        prefetch_index(server, inbox[k + 2])
    if k + 1 < n:
        prefetch_values(server, inbox[k + 1])


@compiled
def answer_datagram(server: ServerState, service: Service, udp: Udp, fd: int, k: int, read_ns: int) -> int:
    rpc, arrival_ns = udp.inbox[k], arrival(udp, k, read_ns)
    if not has_service_time(service):
        answer = udp.outbox[k]
        length = handle(server, rpc, length_of(udp, k), arrival_ns, answer)
        if length > 0:
            stamp(server, answer, read_clock(udp.state, MONOTONIC) - read_ns, read_ns - arrival_ns)
            queue(udp, int64(udp.outbox.ctypes.data) + k * BUFFER_BYTES, length, name_of(udp, k))
        return length
    slot = next_slot(service)
    answer = service.answers[slot]
    length = handle(server, rpc, length_of(udp, k), arrival_ns, answer)
    if length > 0:
        assign_core(service, read_ns, lanes(server, rpc))
        service_ns = service.header.due - service.header.start
        stamp(server, answer, service_ns, service.header.start - arrival_ns)
        charge(server, answer, service_ns)
        hold_answer(service, slot, fd, length, udp.state.names[k])
    return length
