"""What is measured for Fig. 9: each way to wait, few connections and many, busy and idle, proxy or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from paper.connections.waiting import WAYS

CONNECTIONS = (1, 4, 16, 64, 256, 1024, 2048, 4096)
RPCS = 2048
"""Of each measurement, however many connections there are."""
FEW = 16
"""Connections that call where the others are idle."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured."""

    way: str
    """How the server waits (`WAYS`)."""
    connections: int
    """Callers that there are, each with a connection of its own, but for the proxy."""
    active: bool
    """Whether all of them call, or `FEW` only."""
    proxied: bool
    """Whether the switch makes one connection of them."""

    @property
    def callers(self) -> int:
        """Those that call."""
        return self.connections if self.active else min(FEW, self.connections)


def settings(connections: Sequence[int]) -> list[Setting]:
    """All of them; with as few connections as `FEW` all of them call in any case."""
    found = product(WAYS, connections, (True, False), (False, True))
    return [setting for each in found if (setting := Setting(*each)).active or setting.connections > FEW]
