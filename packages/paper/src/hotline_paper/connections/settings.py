"""The settings of Fig. 9: ways to wait for RPCs, numbers of active and idle connections, and arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product, starmap

from foundation.designs.arms import measured_arms
from foundation.designs.hotset import NAME as HOTSET
from foundation.designs.interface import Arm
from hotline_paper.connections.waiting import WAYS

CONNECTIONS = (1, 4, 16, 64, 256, 1024, 4096)
RPCS = 2048  # RPCs of a measurement
ACTIVE_CALLERS = 16
"""Number of connections that call while the others are idle."""
ARMS = tuple(arm for arm in measured_arms(HOTSET) if not arm.is_repetition)


@dataclass(frozen=True, slots=True)
class ConnectionSetting:
    way: str
    connections: int
    """Number of callers, each with its own connection unless the switch is a proxy."""
    active: bool
    """Whether all callers call, or only `ACTIVE_CALLERS`."""
    arm: Arm
    """With a proxy, the switch merges the connections; with offload, it looks for hot keys."""

    @property
    def callers(self) -> int:
        return self.connections if self.active else min(ACTIVE_CALLERS, self.connections)


def settings(connections: Sequence[int]) -> list[ConnectionSetting]:
    return [
        each
        for each in starmap(ConnectionSetting, product(WAYS, connections, (True, False), ARMS))
        if each.active or (each.connections > ACTIVE_CALLERS and not each.arm.settings.aggregates)
    ]
