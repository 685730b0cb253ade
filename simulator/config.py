"""Configuration of a simulated run: that of `make run-topo`, and what its network and hosts are like."""

from __future__ import annotations

import json

from pydantic import Field, model_validator
from typing_extensions import Self

from controller.tables import ROWS
from protocol.addressing import MAX_HOSTS, PORTS
from simulator.costs import Hosts, Network
from topologies.config import SERVER_ROWS, Config

_OF_A_SWITCH = ("traffic_manager", "rack", "switch_us", "switch_mpps")
"""Settings of [network] that need one beside the hosts."""


class SimulationConfig(Config):
    """The tables [network] and [hosts] come on top; settings of real processes have no effect.

    Every arm has a switch of its own, whose ports are what limits the number of hosts; beyond them, workers
    of a rack share one.
    """

    workers: int = Field(default=4, ge=1, le=MAX_HOSTS - 1)
    servers: int = Field(default=2, ge=1, le=SERVER_ROWS)
    network: Network = Network()
    hosts: Hosts = Hosts()
    offered: dict[str, float] = Field(default_factory=dict)
    """Load -> steps/s of all workers, where it is not to be its fraction of what the arms carry."""

    @property
    def jobs_at_a_switch(self) -> int:
        """One, however many arms there are."""
        return 1

    @property
    def workers_at_a_port(self) -> int:
        """Those of a rack."""
        return self.network.rack or 1

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        hosts = f"workers ({self.workers}) and servers ({self.servers})"
        ports = -(-self.workers // self.workers_at_a_port) + self.servers
        if ports > PORTS:
            raise ValueError(
                f"{hosts} need {ports} ports; a switch has {PORTS}: let network.rack workers share one"
            )
        if self.workers + self.servers > MAX_HOSTS:
            raise ValueError(f"{hosts} must be at most {MAX_HOSTS} together, the switch's routes")
        return self

    @model_validator(mode="after")
    def _check_cables(self) -> Self:
        of_a_switch = [name for name in _OF_A_SWITCH if getattr(self.network, name)]
        if of_a_switch and self.hosts.program_ns is not None:
            setting = f"network.{of_a_switch[0]} ({json.dumps(getattr(self.network, of_a_switch[0]))})"
            raise ValueError(
                f"{setting} and hosts.program_ns ({self.hosts.program_ns}) exclude each other: "
                "with program_ns there is no switch but in the hosts"
            )
        for spell in self.network.spells:
            of_a_kind = self.workers if spell.host[0] == "w" else self.servers
            if int(spell.host[1:]) > of_a_kind:
                raise ValueError(
                    f"network.spells: host {spell.host!r} is none of w1 to w{self.workers} and "
                    f"p1 to p{self.servers}"
                )
        return self


assert MAX_HOSTS < ROWS
DDL = SimulationConfig(
    workers=80,
    servers=20,
    arms=("neither", "proxy", "hot", "both"),
    rounds=6,
    loads=(0.5,),
    block_ms=1,
    discard_ms=0,
    block_steps=1,
    trace_steps=14,
    profile_lanes=1_000_000,
)
"""[DDL] §2.1's cluster: 80 workers and 20 servers at 10 Gbit/s."""
