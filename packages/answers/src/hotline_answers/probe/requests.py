"""Requests from the reads and writes of sockets.

A flow is a connection of TCP, or the datagrams between a socket of UDP and one peer. In it, writes that
follow reads answer them:

- In TCP, the reads between two writes are one request, whose last read completes it; the first write that
  follows is its answer.
- In UDP, each read is a request; the k-th write after some reads answers the k-th of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
UNKNOWN = -1
"""A time that was not seen, ns."""


class SocketEvents(NamedTuple):
    """Reads and writes of sockets; arrays have one element for each, in any order."""

    flow: Integers  # number of the flow, from 0
    time_ns: Integers  # monotonic
    arrived_ns: Integers  # when what was read had arrived (monotonic); `UNKNOWN` for writes, and if not seen
    size: Integers  # bytes
    is_write: Flags
    is_tcp: Flags

    def select(self, chosen: Flags | Integers) -> SocketEvents:
        return SocketEvents(
            self.flow[chosen],
            self.time_ns[chosen],
            self.arrived_ns[chosen],
            self.size[chosen],
            self.is_write[chosen],
            self.is_tcp[chosen],
        )


class SocketRequests(NamedTuple):
    """Requests by flow and time; times are monotonic, ns."""

    flow: Integers
    arrived_ns: (
        Integers  # when the first part that was read had arrived, or when it was read if that is unknown
    )
    wait_ns: Integers  # from the arrival of the last part to its read; `UNKNOWN` if the arrival is
    service_ns: Integers  # from the last read to the first write that follows; `UNKNOWN` without an answer

    @property
    def total(self) -> int:
        return len(self.flow)


def requests_of(events: SocketEvents) -> SocketRequests:
    """Return the requests of flows; writes that no read precedes in their flow answer nothing."""
    events = events.select(np.lexsort((events.time_ns, events.flow)))
    if not len(events.flow):
        return SocketRequests(*[np.zeros(0, np.int64)] * 4)
    # A run is a sequence of reads, or of writes, in one flow.
    is_new_flow = np.diff(events.flow, prepend=UNKNOWN) != 0
    starts = np.flatnonzero(is_new_flow | np.diff(events.is_write, prepend=events.is_write[0]))
    lengths = np.diff(starts, append=len(events.flow))
    writes_after = _lengths_of_answers(events, starts, lengths)
    is_read_run = ~events.is_write[starts]
    is_tcp_run = events.is_tcp[starts]
    # In TCP a request is a run, in UDP each event of a run is one.
    tcp_runs = np.flatnonzero(is_read_run & is_tcp_run)
    udp_runs = np.flatnonzero(is_read_run & ~is_tcp_run)
    within_run = _positions_in_runs(lengths[udp_runs])
    run = np.concatenate([tcp_runs, np.repeat(udp_runs, lengths[udp_runs])])
    begin = np.concatenate([starts[tcp_runs], np.repeat(starts[udp_runs], lengths[udp_runs]) + within_run])
    end = np.concatenate([starts[tcp_runs] + lengths[tcp_runs] - 1, begin[len(tcp_runs) :]])
    number = np.concatenate([np.zeros(len(tcp_runs), np.int64), within_run])
    is_answered = number < writes_after[run]
    answer = np.where(is_answered, starts[run] + lengths[run] + number, 0)
    first_arrival, last_arrival = events.arrived_ns[begin], events.arrived_ns[end]
    requests = SocketRequests(
        flow=events.flow[begin],
        arrived_ns=np.where(first_arrival == UNKNOWN, events.time_ns[begin], first_arrival),
        # The offset of the clocks is measured, so a read may seem earlier than the arrival.
        wait_ns=np.where(last_arrival == UNKNOWN, UNKNOWN, np.maximum(events.time_ns[end] - last_arrival, 0)),
        service_ns=np.where(is_answered, events.time_ns[answer] - events.time_ns[end], UNKNOWN),
    )
    return SocketRequests(*(column[np.argsort(begin)] for column in requests))


def _lengths_of_answers(events: SocketEvents, starts: Integers, lengths: Integers) -> Integers:
    """Return the number of writes that follow each run in the same flow; 0 for runs of writes."""
    next_run = np.minimum(np.arange(len(starts)) + 1, len(starts) - 1)
    follows = (events.flow[starts[next_run]] == events.flow[starts]) & events.is_write[starts[next_run]]
    return np.where(follows & ~events.is_write[starts], lengths[next_run], 0)


def _positions_in_runs(lengths: Integers) -> Integers:
    """Return 0, 1, ... for each run: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def concurrent_flows(time_us: Integers, flow: Integers, window_us: int) -> Integers:
    """Return the number of flows with a request, for each window of time with a request."""
    if not len(flow):
        return np.zeros(0, np.int64)
    windows, _ = np.unique(np.stack([time_us // window_us, flow]), axis=1)
    return np.unique(windows, return_counts=True)[1]
