"""Configuration of a simulated run: that of `make run-topo`, and what its network and hosts are like."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from analysis.statistics import MIN_ROUNDS
from controller.tables import ROWS
from experiment.config import PROFILE_LANES, SERVER_ROWS, Config
from foundation.designs.arms import measured, ordered
from foundation.designs.registry import DEFAULT
from foundation.protocol.addressing import MAX_HOSTS, PORTS
from hosts.workload.generator import R1
from simulator.costs import Hosts, Network

log = logging.getLogger(__name__)

_PROFILES, _LEAST_STEPS = 4, 24
"""A trace has so many times the lanes that the hot set is chosen from, so that what is measured is no part of
them; and so many steps of each worker at least."""
_VIRTUALLY_ENDLESS_S = 1e9
_OF_A_SWITCH = ("traffic_manager", "rack", "switch_us", "switch_mpps")
"""Settings of [network] that need one beside the hosts."""


def _arms(design: str) -> tuple[str, ...]:
    return tuple(arm.name for arm in measured(design) if not arm.is_repetition)


class SimulationConfig(Config):
    """The tables [network] and [hosts] come on top; settings of real processes have no effect.

    Every arm has a switch of its own, whose ports are what limits the number of hosts; beyond them, workers
    of a rack share one.
    """

    workers: int = Field(default=4, ge=1, le=MAX_HOSTS - 1)
    servers: int = Field(default=2, ge=1, le=SERVER_ROWS)
    arms: tuple[str, ...] = Field(default_factory=lambda given: _arms(given.get("design", DEFAULT)))
    """Arms that are measured. No noise is there that one which repeats another could show."""
    loads: tuple[float, ...] = (0.5,)
    budget_s: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    """Computing of all rounds, where their number is not given: an RPC counts as 10 µs."""
    block_ms: int = Field(default=1, ge=1)
    discard_ms: int = Field(default=0, ge=0)
    network: Network = Network()
    hosts: Hosts = Hosts()
    max_load: float | None = Field(default=None, gt=0, le=1)
    """Part of what the arm that carries least does that is offered at most, whatever `rate` is."""
    offered: dict[str, float] = Field(default_factory=dict)
    """Load -> steps/s of all workers, where it is not to be its fraction of what the arms carry."""

    @property
    def block_budget_s(self) -> float:
        """Virtual ones cost nothing."""
        return _VIRTUALLY_ENDLESS_S

    @property
    def min_rounds(self) -> int:
        """As many as an interval takes."""
        return MIN_ROUNDS

    @property
    def ends_when_narrow(self) -> bool:
        """Whether narrow intervals end rounds: a simulation has no noise to make them narrow by chance."""
        return True

    @property
    def planned_rounds(self) -> int:
        """Minimum number of rounds."""
        return MIN_ROUNDS

    @property
    def jobs_per_switch(self) -> int:
        """One, however many arms there are."""
        return 1

    @property
    def workers_at_a_port(self) -> int:
        """Those of a rack."""
        return self.network.rack or 1

    @classmethod
    def sized_for(cls, given: Mapping[str, object]) -> object:
        """None: in virtual time agents are compiled, whatever they read datagrams by."""
        return None

    @field_validator("script")
    @classmethod
    def _refuse_scripts(cls, script: str | None) -> str | None:
        if script is not None:
            raise ValueError("there is no virtual time for a script; leave it out, or use `hotline run`")
        return script

    @field_validator("arms")
    @classmethod
    def _leave_out_repetitions(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        repeated = [arm.name for arm in ordered(arms) if arm.is_repetition]
        for name in repeated:
            log.warning("arm %s is left out: virtual time has no noise that it could show", name)
        return tuple(name for name in arms if name not in repeated)

    @model_validator(mode="before")
    @classmethod
    def _make_enough_steps(cls, given: Any) -> Any:  # whatever pydantic is given
        """As long a trace as so many workers take, where nobody has said; what is wrong is told later."""
        if not isinstance(given, dict) or "trace_steps" in given:
            return given
        fields = cls.model_fields
        workers = given.get("workers", fields["workers"].default)
        lanes = given.get("profile_lanes") or PROFILE_LANES
        workload = given.get("workload", {})
        keys = workload.get("keys_per_step", R1.keys_per_step) if isinstance(workload, dict) else 0
        if not all(type(each) is int and each > 0 for each in (workers, lanes, keys)):
            return given
        steps = max(_LEAST_STEPS, math.ceil(_PROFILES * lanes / (workers * keys)))
        return {**given, "trace_steps": steps}

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
        for outage in self.network.outages:
            of_a_kind = self.workers if outage.host[0] == "w" else self.servers
            if int(outage.host[1:]) > of_a_kind:
                raise ValueError(
                    f"network.outages: host {outage.host!r} is none of w1 to w{self.workers} and "
                    f"p1 to p{self.servers}"
                )
        return self


assert MAX_HOSTS < ROWS
DDL = SimulationConfig(workers=80, servers=20)
"""[DDL] §2.1's cluster: 80 workers and 20 servers at 10 Gbit/s."""
