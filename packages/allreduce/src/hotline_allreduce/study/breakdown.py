"""The parts of an all-reduce's time, computed from runs that each add one source of delay.

The parts add up to the time of the last run:

- *values*: transmission of the values alone on the busiest link, by calculation;
- *headers*: transmission of headers, acknowledgements, preambles and gaps on that link;
- *filling up*: the time until all links are busy, if cables and the switch have no delay;
- *a round trip*: the delay to the switch or host that answers, and back, by calculation;
- *the window*: any further delay of cables and switch, since workers with a full window wait for results;
- *hosts*: the agents' measured time per packet;
- *retransmissions*: the delay by lost frames.
"""

from __future__ import annotations

from collections.abc import Mapping

from hotline_allreduce.simulation.measure import AllReduceResult
from hotline_allreduce.study.point import DELAY_US, SWITCH_US, AllReducePoint
from hotline_allreduce.study.schemes import scheme_of

PARTS = ("values", "headers", "filling up", "a round trip", "the window", "hosts", "retransmissions")
COLOURS = ("#3b7dd8", "#9ecae1", "#8c6d31", "#2c9a57", "#e07b1a", "#9467bd", "#c44e52")
LINK_PARTS = PARTS[: PARTS.index("hosts")]  # without the parts by hosts and loss
# From host to host, over two cables and the switch; the way to the switch and back is as long.
ONE_WAY_S = (2 * DELAY_US + SWITCH_US) / 1e6


def parts_of(point: AllReducePoint, runs: Mapping[str, AllReduceResult]) -> dict[str, float]:
    """Return the seconds of each part, from the runs of `hotline_allreduce.study.plan.breakdown_points`."""
    ideal, latency, hosts, loss = (runs[name] for name in ("no-latency", "latency", "host-costs", "loss"))
    delay_s = latency.seconds - ideal.seconds
    trip_s = min(round_trip_s(point), delay_s)
    seconds = (
        ideal.payload_limit_s,
        ideal.limit_s - ideal.payload_limit_s,
        ideal.seconds - ideal.limit_s,
        trip_s,
        delay_s - trip_s,
        hosts.seconds - latency.seconds,
        loss.seconds - hosts.seconds,
    )
    return dict(zip(PARTS, seconds, strict=True))


def round_trip_s(point: AllReducePoint) -> float:
    is_answered_by_switch = scheme_of(point.scheme).subject.design.has_services
    return ONE_WAY_S if is_answered_by_switch else 2 * ONE_WAY_S
