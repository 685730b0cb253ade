"""Sequences of kills: processes one after the other, also while what was killed before comes back.

One sequence is played in virtual time and with real processes alike.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from protocol.addressing import SWITCH_NAME

_GAPS = (0.0, 0.2, 0.6, 1.2)
_MOST = 5
_A_WORKER_TOO = 0.25


class Kill(NamedTuple):
    """One of them."""

    who: str
    """As processes are named: s1, ps-0, worker-1."""
    gap: float
    """Until the next, as a share of the time in which a switch is restored; whoever is next has come back."""


def draw_kills(seed: int, workers: int, servers: int) -> tuple[Kill, ...]:
    """Two to five of switch and servers, one of them the switch; a worker, who ends a run, may be last."""
    random = Random(f"kills {seed}")
    who = [SWITCH_NAME]
    others = [SWITCH_NAME, *(f"ps-{p}" for p in range(servers))]
    who += random.choices(others, k=random.randint(1, _MOST - 1))
    random.shuffle(who)
    if random.random() < _A_WORKER_TOO:
        who.append(f"worker-{random.randint(1, workers)}")
    return tuple(Kill(each, random.choice(_GAPS) * (0.5 + random.random())) for each in who)
