"""The system that a simulated network simulates: a design's hosts, their cables, the costs of their work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foundation.designs.interface import Arm, Design
from foundation.optimisers import TableOptimiser
from foundation.protocol.header import WINDOW
from foundation.protocol.leaf_spine import LeafSpine
from hosts.agent_config import RunSettings
from hosts.keys import KeySpace
from hotline_simulator.costs import HostCosts, Network


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSystem:
    design: Design
    arm: Arm
    space: KeySpace
    workers: int
    servers: int
    largest_batch: int = 1
    """Largest number of keys in an operation of a worker."""
    network: Network = field(default_factory=Network)
    hosts: HostCosts = field(default_factory=HostCosts)
    seed: int = 1
    """Seed of losses, delays and whatever else is random in the network."""
    journal_bytes: int = 0
    """Size of a server's journal; 0 for servers without one."""
    has_replay_logs: bool = False
    window: int = WINDOW
    """RPCs that a worker may have outstanding."""
    tables: Sequence[TableOptimiser] = ()
    """Optimisers of the parameters, in the order of their keys; empty if servers only add."""
    settings: RunSettings = field(default_factory=RunSettings)
    topology: LeafSpine | None = None
    """The network of leaves and a spine; None for one switch, with racks or without."""
    neighbours: Sequence[Arm] = ()
    """Further arms with as many workers and servers each, which share the switch."""
