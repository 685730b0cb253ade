"""The retransmission timeout of RFC 6298. Karn's rule is left to the caller: sample what was sent once."""

from __future__ import annotations

from typing import Protocol

from nativekit.compile import compiled, int64

MS = 1_000_000
MINIMUM, MAXIMUM = 20 * MS, 1000 * MS
"""Of the timeout, ns. The minimum rides out a descheduled process; the standard's 1 s is for the Internet."""


class Timed(Protocol):
    """A record with the state of the timeout; times in ns."""

    smoothed: float
    variation: float
    timeout: int
    backed_off_at: int


@compiled
def sample(header: Timed, round_trip: int) -> None:
    """Take in one round trip, ns (RFC 6298 §2); ends a back-off."""
    if header.smoothed != 0:
        header.variation += (abs(header.smoothed - round_trip) - header.variation) / 4
        header.smoothed += (round_trip - header.smoothed) / 8
    else:
        header.smoothed = round_trip
        header.variation = round_trip / 2
    header.timeout = min(max(int64(header.smoothed + 4 * header.variation), MINIMUM), MAXIMUM)


@compiled
def expired(header: Timed, sent: int, now: int) -> None:
    """An RPC sent at `sent` timed out: double the timeout, once for all that were on the way together."""
    if sent >= header.backed_off_at:
        header.backed_off_at = now
        header.timeout = min(2 * int64(header.timeout), MAXIMUM)
