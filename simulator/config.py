"""Configuration of a simulated run: that of `make run-topo`, and what its network and hosts are like."""

from __future__ import annotations

from simulator.costs import Hosts, Network
from topologies.config import Config


class SimulationConfig(Config):
    """The tables [network] and [hosts] come on top; settings of real processes have no effect."""

    network: Network = Network()
    hosts: Hosts = Hosts()


DDL = SimulationConfig(
    workers=80,
    servers=20,
    arms=("neither", "proxy", "hot", "both"),
    rounds=6,
    loads=(0.5,),
    block_ms=1,
    discard_ms=0,
    block_steps=1,
    trace_steps=20,
    profile_lanes=1_000_000,
)
"""[DDL] §2.1's cluster: 80 workers and 20 servers at 10 Gbit/s."""
