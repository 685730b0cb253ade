"""A schedule is played from its beginning to its end."""

from __future__ import annotations

from simulator.faults.bed import Bed
from simulator.faults.player import Outcome, Player
from simulator.faults.schedule import Schedule
from simulator.faults.strikes import KINDS


def play_schedule(bed: Bed, schedule: Schedule) -> Outcome:
    """Play a schedule."""
    return Player(bed, schedule, KINDS).run()
