"""The retransmission timeout of RFC 6298. Callers apply Karn's rule: they sample only RPCs sent once."""

from __future__ import annotations

from typing import Protocol

from nativekit.compile import compiled, int64

NS_PER_MS = 1_000_000
MIN_TIMEOUT_NS, MAX_TIMEOUT_NS = 20 * NS_PER_MS, 1000 * NS_PER_MS
"""Bounds of the timeout. The minimum covers a descheduled process; RFC 6298 has a minimum of 1 s."""


INITIAL_TIMEOUT_NS = 5 * MIN_TIMEOUT_NS  # before the first sample


class TimeoutState(Protocol):
    """A record with the timeout, and SRTT and RTTVAR of RFC 6298, in ns."""

    srtt: float  # 0 before the first sample
    rttvar: float
    timeout: int
    backed_off_at: int  # time of the last back-off, in ns


@compiled
def sample_round_trip(header: TimeoutState, round_trip: int) -> None:
    """Update the timeout by one round trip in ns (RFC 6298 §2); this ends a back-off."""
    if header.srtt != 0:
        header.rttvar += (abs(header.srtt - round_trip) - header.rttvar) / 4
        header.srtt += (round_trip - header.srtt) / 8
    else:
        header.srtt = round_trip
        header.rttvar = round_trip / 2
    header.timeout = min(max(int64(header.srtt + 4 * header.rttvar), MIN_TIMEOUT_NS), MAX_TIMEOUT_NS)


@compiled
def back_off(header: TimeoutState, sent: int, now: int) -> None:
    """Double the timeout after an RPC sent at `sent` timed out, once for all RPCs in flight together."""
    if sent >= header.backed_off_at:
        header.backed_off_at = now
        header.timeout = min(2 * int64(header.timeout), MAX_TIMEOUT_NS)
