"""What the time of an all-reduce is made of: the same one, where less and less is left out.

Each part is what one run takes more than the run before, so all of them add up to the last one's time:

- *values*: what the busiest link needs for the values alone, by calculation;
- *headers*: what it was busy for beside that, with headers, acknowledgements, preambles and gaps;
- *filling up*: until frames are everywhere, and store and forward; cables and switch take no time yet;
- *a round trip*: from a worker to whoever answers and back, once at most, by calculation;
- *the window*: whatever else it takes that cables and switch take time: workers wait for results with a
  window on the way;
- *hosts*: with what our agents take for each packet;
- *retransmissions*: with frames that are lost."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.dense.measure import Reduced
from studies.allreduce.contenders import contender
from studies.allreduce.point import DELAY_US, SWITCH_US, Reduce

NAMES = ("values", "headers", "filling up", "a round trip", "the window", "hosts", "retransmissions")
COLOURS = ("#3b7dd8", "#9ecae1", "#8c6d31", "#2c9a57", "#e07b1a", "#9467bd", "#c44e52")
OF_LINKS = NAMES[:5]
"""Where hosts take no time, and nothing is lost."""
ONE_WAY_S = (2 * DELAY_US + SWITCH_US) / 1e6
"""From one host to another, or from a worker to the switch and back."""


def parts_of(point: Reduce, runs: Mapping[str, Reduced]) -> dict[str, float]:
    """Part -> seconds, of runs as `studies.allreduce.plan.in_parts` has them."""
    near, far, ours, lossy = (runs[name] for name in ("near", "far", "ours", "lossy"))
    delayed = far.seconds - near.seconds
    trip = min(round_trip_s(point), delayed)
    found = (
        near.payload_limit_s,
        near.limit_s - near.payload_limit_s,
        near.seconds - near.limit_s,
        trip,
        delayed - trip,
        ours.seconds - far.seconds,
        lossy.seconds - ours.seconds,
    )
    return dict(zip(NAMES, found, strict=True))


def round_trip_s(point: Reduce) -> float:
    """Between workers and whoever answers: the switch itself, or another host."""
    subject = contender(point.contender).subject
    return ONE_WAY_S if subject.arm.settings.aggregates else 2 * ONE_WAY_S
