"""Four ways for a server to find out which of its sockets has a request; all else is the PS's own loop.

*scan* asks every socket in turn. *poll* hands the kernel the list of them for each wait, and looks through it
afterwards. *epoll* is told of those that are ready. *shared* has one socket, whoever calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from foundation.compiled import entry_point
from hosts.hotset.ps.state import Server, needs_room
from hosts.ps.serve import Sources, answer_burst
from hosts.ps.service import Service
from hosts.udp import BURST, Udp
from nativekit.compile import compiled, int64
from nativekit.libc import epoll_wait, ppoll
from nativekit.records import checked, records
from nativekit.reference import as_ref

WAYS = ("scan", "poll", "epoll", "shared")
COMMAND, ROOM = 0, 1
"""Why a loop has come back: there is input; the server needs room."""
_POLLIN = 1
_SWEEPS = 64
"""Sweeps of all sockets between two looks at standard input."""
POLLFD = checked(np.dtype({"names": ["fd", "events", "revents"], "formats": ["i4", "i2", "i2"]}))
"""struct pollfd"""


class Waiting(NamedTuple):
    """What a loop waits for."""

    polled: Any
    """POLLFD[sockets + 1], standard input last."""
    sources: Sources
    """Of the PS's loop: marks, and epoll's descriptor and events."""


def pollfds(fds: list[int]) -> Any:
    """What poll is asked about."""
    polled = records(len(fds), POLLFD)
    polled["fd"] = fds
    polled["events"] = _POLLIN
    return polled


@compiled
def has_input(waiting: Waiting) -> bool:
    """Whether standard input has anything, without waiting."""
    last = len(waiting.polled) - 1
    timespec = np.zeros(2, np.int64)
    first = int64(waiting.polled.ctypes.data)
    return int64(ppoll(first + last * 8, 1, timespec.ctypes.data, 0)) > 0


@entry_point
def scan(server: Server, service: Service, udp: Udp, waiting: Waiting) -> int:
    """Ask every socket in turn, until there is something for Python."""
    server, service = as_ref(server), as_ref(service)
    udp, waiting = as_ref(udp), as_ref(waiting)
    sockets = len(waiting.polled) - 1
    sweeps = int64(0)
    while True:
        for k in range(sockets):
            answer_burst(server, service, udp, waiting.sources, int64(waiting.polled[k].fd))
            if needs_room(server, BURST):
                return ROOM
        sweeps += 1
        # Many sockets take long to ask.
        if (sweeps % _SWEEPS == 0 or sockets >= _SWEEPS or sockets == 0) and has_input(waiting):
            return COMMAND


@entry_point
def poll(server: Server, service: Service, udp: Udp, waiting: Waiting) -> int:
    """Have the kernel wait on the list of all sockets, and look through it."""
    server, service = as_ref(server), as_ref(service)
    udp, waiting = as_ref(udp), as_ref(waiting)
    sockets = len(waiting.polled) - 1
    while True:
        ppoll(waiting.polled.ctypes.data, sockets + 1, 0, 0)
        for k in range(sockets):
            if waiting.polled[k].revents:
                answer_burst(server, service, udp, waiting.sources, int64(waiting.polled[k].fd))
                if needs_room(server, BURST):
                    return ROOM
        if waiting.polled[sockets].revents:
            return COMMAND


@entry_point
def epoll(server: Server, service: Service, udp: Udp, waiting: Waiting) -> int:
    """Be told which sockets are ready."""
    server, service = as_ref(server), as_ref(service)
    udp, waiting = as_ref(udp), as_ref(waiting)
    events, state = waiting.sources.events, waiting.sources.state
    while True:
        ready = int64(epoll_wait(state.epoll, events.ctypes.data, len(events), -1))
        for e in range(ready):
            fd = int64(events[e].fd)
            if fd == state.commands:
                return COMMAND
            answer_burst(server, service, udp, waiting.sources, fd)
            if needs_room(server, BURST):
                return ROOM


LOOPS = {"scan": scan, "poll": poll, "epoll": epoll, "shared": epoll}
