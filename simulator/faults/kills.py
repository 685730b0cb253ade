"""Random sequences of process kills; a kill may come during the recovery from an earlier kill."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from experiment.faults import SERVER_KILLED, SWITCH_KILLED, WORKER_KILLED, ProcessKill

# Typical values of `Kill.gap`, each of which varies by half.
_GAPS = (0.0, 0.2, 0.6, 1.2)
_MAX_KILLS = 5
_WORKER_KILL_PROBABILITY = 0.25


class Kill(NamedTuple):
    kind: ProcessKill
    target: int  # index of the process among those of its kind, from 0
    gap: float  # time until the next kill, as a fraction of a switch's restore time

    @property
    def process(self) -> str:
        return f"{self.kind.process}{self.kind.first_number + self.target}"


def draw_kills(seed: int, workers: int, servers: int) -> tuple[Kill, ...]:
    random = Random(f"kills {seed}")
    processes = [(SWITCH_KILLED, 0), *((SERVER_KILLED, p) for p in range(servers))]
    # The switch is killed at least once.
    victims = [processes[0], *random.choices(processes, k=random.randint(1, _MAX_KILLS - 1))]
    random.shuffle(victims)
    if random.random() < _WORKER_KILL_PROBABILITY:
        victims.append((WORKER_KILLED, random.randrange(workers)))
    return tuple(
        Kill(kind, target, random.choice(_GAPS) * (0.5 + random.random())) for kind, target in victims
    )
