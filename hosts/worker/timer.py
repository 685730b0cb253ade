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
def sample(me: Timed, round_trip: int) -> None:
    """Take in one round trip, ns (RFC 6298 §2); ends a back-off."""
    if me.smoothed != 0:
        me.variation += (abs(me.smoothed - round_trip) - me.variation) / 4
        me.smoothed += (round_trip - me.smoothed) / 8
    else:
        me.smoothed = round_trip
        me.variation = round_trip / 2
    me.timeout = min(max(int64(me.smoothed + 4 * me.variation), MINIMUM), MAXIMUM)


@compiled
def expired(me: Timed, sent: int, now: int) -> None:
    """An RPC sent at `sent` timed out: double the timeout, once for all that were on the way together."""
    if sent >= me.backed_off_at:
        me.backed_off_at = now
        me.timeout = min(2 * int64(me.timeout), MAXIMUM)
