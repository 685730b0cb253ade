"""What hosts have for each design: its workers, its servers and its frames."""

from __future__ import annotations

from foundation.designs.interface import Agents
from foundation.designs.registry import Parts

AGENTS = Parts[Agents](
    "hosts",
    "AGENTS",
    {
        "hotset": "hosts.hotset.agents",
        "none": "hosts.none.agents",
        "psdense": "hosts.psdense.agents",
        "ring": "hosts.ring.agents",
        "switchml": "hosts.switchml.agents",
    },
)
