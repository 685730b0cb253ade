"""The offered loads are fractions of what all arms carry in a closed loop.

Beyond what an arm carries its latency would only tell how long it was measured.
"""

from __future__ import annotations

from analysis.record import least_capacity
from experiment.session import Session
from foundation.logs.columns import load_name


def take_capacity(session: Session, found: dict[str, float]) -> float:
    """Offer fractions of the least of these (arm -> steps/s), or of the rate that was given; returns it.

    In a closed loop that rate is what blocks are expected to reach, and nothing is offered.
    """
    session.record.capacity = found
    rate = session.config.rate or least_capacity(found)
    if not session.config.is_closed_loop:
        session.record.offered_rate = {load_name(load): load * rate for load in session.config.loads}
    return rate
