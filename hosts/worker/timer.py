"""The retransmission timeout of RFC 6298. Callers apply Karn's rule: they sample only RPCs sent once."""

from __future__ import annotations

from typing import Protocol

from nativekit.compile import compiled, int64

MS = 1_000_000
MINIMUM, MAXIMUM = 20 * MS, 1000 * MS
"""Bounds of the timeout, in ns. The minimum covers a descheduled process; RFC 6298 has 1 s."""


class TimeoutState(Protocol):
    """A record with the state of the timeout, in ns."""

    smoothed: float
    variation: float
    timeout: int
    backed_off_at: int


@compiled
def sample(header: TimeoutState, round_trip: int) -> None:
    """Update the timeout by one round trip in ns (RFC 6298 §2); this ends a back-off."""
    if header.smoothed != 0:
        header.variation += (abs(header.smoothed - round_trip) - header.variation) / 4
        header.smoothed += (round_trip - header.smoothed) / 8
    else:
        header.smoothed = round_trip
        header.variation = round_trip / 2
    header.timeout = min(max(int64(header.smoothed + 4 * header.variation), MINIMUM), MAXIMUM)


@compiled
def back_off(header: TimeoutState, sent: int, now: int) -> None:
    """Double the timeout after an RPC sent at `sent` timed out, once for all RPCs in flight together."""
    if sent >= header.backed_off_at:
        header.backed_off_at = now
        header.timeout = min(2 * int64(header.timeout), MAXIMUM)
