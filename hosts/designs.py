"""The agents of each design: its workers, its servers and its frames."""

from __future__ import annotations

from foundation.designs.interface import Agents
from foundation.designs.registry import Parts

AGENTS = Parts[Agents](
    "hosts",
    "AGENTS",
    {
        "hotset": "hosts.hotset",
        "none": "hosts.none",
        "psdense": "hosts.psdense",
        "ring": "hosts.ring",
        "switchml": "hosts.switchml",
    },
)
