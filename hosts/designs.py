"""The agents of each design: its workers, its servers and its Scapy layer."""

from __future__ import annotations

from typing import Any

from foundation.designs.interface import Agents
from foundation.designs.registry import Parts
from hosts.ps.core import Core
from hosts.ps.rpcs import JobsState
from hosts.ps.store import Store
from hosts.worker.client import BaseClient

# Core's parameter is the type of an address, which differs between sockets and simulation.
AGENTS = Parts[Agents[BaseClient, JobsState, Store, Core[Any]]](
    package="hosts",
    attribute="AGENTS",
    modules={
        "atp": "hosts.atp",
        "collect": "hosts.collect",
        "hotset": "hosts.hotset",
        "none": "hosts.none",
        "psdense": "hosts.psdense",
        "ring": "hosts.ring",
        "switchml": "hosts.switchml",
    },
)
