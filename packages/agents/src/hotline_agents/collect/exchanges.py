"""Exchanges of a server: of each job with each of its homes, the switches that sum gradients for it.

Most servers have one home. If each leaf with workers is a home of all servers, what one home has added is
published at all homes that have the row.
"""

from __future__ import annotations

from foundation.protocol.header import PS_BITS
from hotline_agents.collect.state import CHANGED, GIVEN, CollectServer
from nativekit.compile import compiled, int64


@compiled
def homes_of(server: CollectServer) -> int:
    """Return the number of homes."""
    return server.header.last_home + 1


@compiled
def first_exchange(server: CollectServer, j: int) -> int:
    """Return the index of a job's exchange with the first home; those with other homes follow."""
    return j * homes_of(server)


@compiled
def exchange_of(server: CollectServer, j: int, ps: int) -> int:
    """Return the index of a job's exchange with the home at which this server has the number `ps`."""
    return first_exchange(server, j) + (ps >> PS_BITS)


@compiled
def number_at(server: CollectServer, e: int) -> int:
    """Return the number of this server at the home of an exchange."""
    return server.header.ps | e % homes_of(server) << PS_BITS


@compiled
def mark_changed(server: CollectServer, j: int, place: int) -> None:
    """Have the row at a place published again at all homes that have it."""
    first = first_exchange(server, j)
    for e in range(first, first + homes_of(server)):
        copy = server.copies[e, place]
        if int64(copy.marks) & GIVEN:
            copy.marks = int64(copy.marks) | CHANGED


@compiled
def complete_until(server: CollectServer, e: int, place: int) -> int:
    """Return until when the server has applied what all homes have added to a row, in ns."""
    first = e - e % homes_of(server)
    time = int64(server.copies[e, place].last_read_time)
    for other in range(first, first + homes_of(server)):
        copy = server.copies[other, place]
        if int64(copy.marks) & GIVEN:
            time = min(time, int64(copy.last_read_time))
    return time
