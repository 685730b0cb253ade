"""Four ways for a server to find out which of its sockets has a request; the rest is the PS's usual loop.

*scan* tries to read every socket in turn. *poll* passes the list of sockets to the kernel for each wait, and
scans it afterwards. *epoll* gets the list of ready sockets. *shared* is epoll with one socket for all
callers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

import numpy as np

from foundation.compiled import entry_point
from hotline_agents.hotset.ps.state import HotsetServer, needs_room
from hotline_agents.ps.compiled_loop import Sources, answer_burst
from hotline_agents.ps.service_time import Service
from hotline_agents.udp import BURST, Udp
from nativekit.compile import compiled, int64
from nativekit.libc import epoll_wait, ppoll
from nativekit.records import Int32, Records, check_field_names, dtype_of, records
from nativekit.reference import as_ref

WAYS = ("scan", "poll", "epoll", "shared")
COMMAND, NEEDS_ROOM = 0, 1  # why a loop returns: a command has arrived, or a burst needs more room
_POLLIN = 1
_POLL_FD_BYTES = 8
_CHECK_EVERY = 64  # scans of all sockets between two checks of standard input


class PollFd:
    fd: Int32
    events: Annotated[int, np.int16]
    revents: Annotated[int, np.int16]


class WaitSet(NamedTuple):
    poll_fds: Records[PollFd]  # [sockets + 1], standard input last
    sources: Sources


def make_poll_fds(fds: list[int]) -> Records[PollFd]:
    poll_fds: Records[PollFd] = records(len(fds), check_field_names(dtype_of(PollFd)))
    poll_fds["fd"] = fds
    poll_fds["events"] = _POLLIN
    return poll_fds


@compiled
def has_input(wait_set: WaitSet) -> bool:
    stdin_index = len(wait_set.poll_fds) - 1
    timespec = np.zeros(2, np.int64)  # do not wait
    address = int64(wait_set.poll_fds.ctypes.data)
    return int64(ppoll(address + stdin_index * _POLL_FD_BYTES, 1, timespec.ctypes.data, 0)) > 0


@entry_point
def scan(server: HotsetServer, service: Service, udp: Udp, wait_set: WaitSet) -> int:
    server, service = as_ref(server), as_ref(service)
    udp, wait_set = as_ref(udp), as_ref(wait_set)
    sockets = len(wait_set.poll_fds) - 1
    scans = int64(0)
    while True:
        for k in range(sockets):
            answer_burst(server, service, udp, wait_set.sources, int64(wait_set.poll_fds[k].fd))
            if needs_room(server, BURST):
                return NEEDS_ROOM
        scans += 1
        # Check after every scan of many sockets, which takes long, and without sockets (`warm_up`).
        if (scans % _CHECK_EVERY == 0 or sockets >= _CHECK_EVERY or sockets == 0) and has_input(wait_set):
            return COMMAND


@entry_point
def poll(server: HotsetServer, service: Service, udp: Udp, wait_set: WaitSet) -> int:
    server, service = as_ref(server), as_ref(service)
    udp, wait_set = as_ref(udp), as_ref(wait_set)
    sockets = len(wait_set.poll_fds) - 1
    while True:
        ppoll(wait_set.poll_fds.ctypes.data, sockets + 1, 0, 0)
        for k in range(sockets):
            if wait_set.poll_fds[k].revents:
                answer_burst(server, service, udp, wait_set.sources, int64(wait_set.poll_fds[k].fd))
                if needs_room(server, BURST):
                    return NEEDS_ROOM
        if wait_set.poll_fds[sockets].revents:
            return COMMAND


@entry_point
def epoll(server: HotsetServer, service: Service, udp: Udp, wait_set: WaitSet) -> int:
    server, service = as_ref(server), as_ref(service)
    udp, wait_set = as_ref(udp), as_ref(wait_set)
    events, state = wait_set.sources.events, wait_set.sources.state
    while True:
        ready_count = int64(epoll_wait(state.epoll, events.ctypes.data, len(events), -1))
        for e in range(ready_count):
            fd = int64(events[e].fd)
            if fd == state.commands:
                return COMMAND
            answer_burst(server, service, udp, wait_set.sources, fd)
            if needs_room(server, BURST):
                return NEEDS_ROOM


Loop = Callable[[HotsetServer, Service, Udp, WaitSet], int]
LOOPS: dict[str, Loop] = {"scan": scan, "poll": poll, "epoll": epoll, "shared": epoll}
