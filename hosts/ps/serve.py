"""The PS's compiled loop: from the sockets through `hosts.ps.rpc` and back, until Python is needed."""

from __future__ import annotations

from typing import Any, NamedTuple

from hosts.ps.rpc import IS_CONTROL, handle, stamp
from hosts.ps.state import Server, needs_room
from hosts.udp import (
    BURST,
    MONOTONIC,
    THREAD_CPU,
    Udp,
    arrival,
    clock,
    flush,
    length_of,
    name_of,
    queue,
    take,
)
from native.compile import compiled, entry_point, int64
from native.libc import epoll_wait
from native.records import record, records
from native.words import borrowed
from protocol.rpc import BUFFER_BYTES
from softswitch.ports.layout import EPOLL_EVENT

QUIET, COMMAND, SIGNAL, OWN, MARKED, ROOM = 0, 1, 2, 3, 4, 5
"""Why the loop has come back: nothing for a while; input; a signal; a datagram at its own port; datagrams of
the inbox are marked; the server needs room."""
ANSWERED, FOR_CONTROL, NEWCOMER = 0, 1, 2
"""Marks of datagrams: nothing is left to do; it is the controller's; its caller was not known before."""
EVENTS = 64
_LONGEST_WAIT_NS = 1_000_000_000

_STATE = record("epoll", "commands", "signals", "own", "fd", "taken")


class Sources(NamedTuple):
    """What the loop waits for."""

    state: Any
    """A record of file descriptors, -1 for none; `fd` and `taken`: whose and how many datagrams came."""
    events: Any
    """EPOLL_EVENT[EVENTS]; `data` is a file descriptor."""
    marks: Any
    """int64[BURST]"""


def make_sources(epoll: int) -> Sources:
    """Of an epoll instance; whatever is registered there with a descriptor not named here is a data port."""
    state = records(1, _STATE)[0]
    for name in ("commands", "signals", "own", "fd"):
        setattr(state, name, -1)
    state.epoll = epoll
    return Sources(state, records(EVENTS, EPOLL_EVENT), records(BURST, record("kind")).kind)


@entry_point
def serve(server: Server, udp: Udp, sources: Sources, until: int) -> int:
    """Answer datagrams until there is something for Python, or for a second, or until `until` (ns)."""
    server, udp, sources = borrowed(server), borrowed(udp), borrowed(sources)
    state, events = sources.state, sources.events
    while True:
        if needs_room(server, BURST):
            return ROOM
        ready = int64(epoll_wait(state.epoll, events.ctypes.data, EVENTS, patience_ms(udp, until)))
        if ready <= 0:
            return QUIET
        for e in range(ready):
            fd = int64(events[e].data)
            if fd == state.commands:
                return COMMAND
            if fd == state.signals:
                return SIGNAL
            if fd == state.own:
                return OWN
            if answer_burst(server, udp, sources, fd):
                return MARKED
            if needs_room(server, BURST):
                return ROOM


@compiled
def patience_ms(udp: Udp, until: int) -> int:
    """How long to wait, rounded up: `until` is for retransmissions, which need no more."""
    left = min(until - clock(udp, MONOTONIC), _LONGEST_WAIT_NS)
    return max(left + 999_999, 0) // 1_000_000


@compiled
def answer_burst(server: Server, udp: Udp, sources: Sources, fd: int) -> bool:
    """Answer what waits at a data socket; whether some of it is marked.

    The processing is timed for each datagram; its CPU time, which only a system call tells, for the burst.
    """
    n = take(udp, fd)
    sources.state.fd, sources.state.taken = fd, n
    if n == 0:
        return False
    marked = False
    outbox = int64(udp.outbox.ctypes.data)
    began = clock(udp, THREAD_CPU)
    read = clock(udp, MONOTONIC)
    for k in range(n):
        callers = int64(server.me.callers)
        came = arrival(udp, k, read)
        length = handle(server, udp.inbox[k], length_of(udp, k), came, udp.outbox[k])
        done = clock(udp, MONOTONIC)
        mark = ANSWERED
        if length > 0:
            stamp(server, udp.outbox[k], done - read, read - came)
            queue(udp, outbox + k * BUFFER_BYTES, length, name_of(udp, k))
        elif length == IS_CONTROL:
            mark = FOR_CONTROL
        if server.me.callers > callers:
            mark = NEWCOMER
        sources.marks[k] = mark
        marked |= mark != ANSWERED
        read = done
    share_cpu(server, clock(udp, THREAD_CPU) - began)
    flush(udp, fd)
    return marked


@compiled
def share_cpu(server: Server, ns: int) -> None:
    """Divide a burst's CPU time among the jobs, by the RPCs of each."""
    answered = int64(0)
    for j in range(len(server.jobs)):
        answered += server.jobs[j].in_burst
    for j in range(len(server.jobs)):
        job = server.jobs[j]
        if job.in_burst:
            job.proc_cpu_ns += ns * job.in_burst // answered
            job.in_burst = 0
