"""Sequences of kills: processes one after the other, also while what was killed before comes back.

One sequence is played in virtual time and with real processes alike.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from experiment.faults import SERVER_KILLED, SWITCH_KILLED, WORKER_KILLED, ProcessKill

_GAPS = (0.0, 0.2, 0.6, 1.2)
_MOST = 5
_A_WORKER_TOO = 0.25


class Kill(NamedTuple):
    """One of them."""

    kind: ProcessKill
    who: int
    """From 0 on."""
    gap: float
    """Until the next, as a share of the time in which a switch is restored; whoever is next has come back."""

    @property
    def process(self) -> str:
        """As it is named: s1, ps-0, worker-1."""
        return f"{self.kind.process}{self.kind.first + self.who}"


def draw_kills(seed: int, workers: int, servers: int) -> tuple[Kill, ...]:
    """Two to five of switch and servers, one of them the switch; a worker, who ends a run, may be last."""
    random = Random(f"kills {seed}")
    everybody = [(SWITCH_KILLED, 0), *((SERVER_KILLED, p) for p in range(servers))]
    whom = [everybody[0], *random.choices(everybody, k=random.randint(1, _MOST - 1))]
    random.shuffle(whom)
    if random.random() < _A_WORKER_TOO:
        whom.append((WORKER_KILLED, random.randrange(workers)))
    return tuple(Kill(kind, who, random.choice(_GAPS) * (0.5 + random.random())) for kind, who in whom)
