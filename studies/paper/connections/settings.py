"""What is measured for Fig. 9: each way to wait, few connections and many, busy and idle, proxy or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from foundation.designs.arms import measured
from foundation.designs.hotset import NAME
from foundation.designs.interface import Arm
from studies.paper.connections.waiting import WAYS

CONNECTIONS = (1, 4, 16, 64, 256, 1024, 4096)
RPCS = 2048
"""Of each measurement, however many connections there are."""
FEW = 16
"""Connections that call where the others are idle."""
ARMS = tuple(arm for arm in measured(NAME) if not arm.is_repetition)


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured."""

    way: str
    """How the server waits (`WAYS`)."""
    connections: int
    """Callers that there are, each with a connection of its own, but for the proxy."""
    active: bool
    """Whether all of them call, or `FEW` only."""
    arm: Arm
    """With the proxy the switch makes one connection of them; with offload it looks for hot keys."""

    @property
    def callers(self) -> int:
        """Those that call."""
        return self.connections if self.active else min(FEW, self.connections)


def settings(connections: Sequence[int]) -> list[Setting]:
    """All of them; with as few connections as `FEW` all of them call in any case, as they do with offload."""
    found = [Setting(*each) for each in product(WAYS, connections, (True, False), ARMS)]
    return [
        each for each in found if each.active or (each.connections > FEW and not each.arm.settings.aggregates)
    ]
