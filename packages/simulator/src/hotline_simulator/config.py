"""Configuration of a simulated run: that of `make run-topo`, with tables for its network and hosts."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator
from typing_extensions import Self

from analysis.statistics import MIN_ROUNDS
from controller.sizes import CALLERS
from experiment.errors import ConfigError
from experiment.run_config import PROFILE_LANES, SERVER_ROWS, Config, config_of, max_top_k, read_toml
from foundation.designs.arms import arms_in_order, measured_arms
from foundation.designs.registry import DEFAULT
from foundation.errors import HotlineError
from foundation.protocol.addressing import MAX_HOSTS, PORTS
from foundation.protocol.header import LANES
from hosts.workload.generator import R1
from hotline_simulator.costs import HostCosts, Network

log = logging.getLogger(__name__)

_PROFILES_PER_TRACE, _MIN_STEPS = 4, 24
"""A trace has this multiple of the lanes that the hot set is chosen from, so that other steps are measured,
and at least this number of steps of each worker."""
_UNLIMITED_S = 1e9
_SWITCH_SETTINGS = ("traffic_manager", "rack", "switch_us", "switch_mpps")


def _default_arms(design: str) -> tuple[str, ...]:
    return tuple(arm.name for arm in measured_arms(design) if not arm.is_repetition)


class SimulationError(HotlineError):
    """A simulated run is impossible or cannot continue; the message says when and why."""


def load_hosts(file: Path) -> HostCosts:
    """Return the table [hosts] of a TOML file, as `hotline answer fit` writes it; raise `ConfigError`."""
    label = f"--hosts {file}"
    tables = read_toml(file, label)
    for name in tables:
        if name != "hosts":
            raise ConfigError(
                f"{label}: {name}: expected the table [hosts] only, as `hotline answer fit` writes it"
            )
    hosts = tables.get("hosts")
    if not isinstance(hosts, dict):
        raise ConfigError(f"{label}: expected a table [hosts], as `hotline answer fit` writes it")
    try:
        return config_of(HostCosts, hosts)
    except ConfigError as error:
        raise ConfigError(f"{label}: {error}") from None


class SimulationConfig(Config):
    """Configuration with [network] and [hosts]; settings of real processes have no effect.

    Every arm has its own switch, whose ports limit the hosts; workers of a rack share one port.
    """

    designs_of_networks: ClassVar[tuple[str, ...]] = (*Config.designs_of_networks, "none")
    setting_of_cables: ClassVar[str] = "network.rate_mbit"

    workers: int = Field(default=4, ge=1, le=MAX_HOSTS - 1)
    servers: int = Field(default=2, ge=1, le=SERVER_ROWS)
    arms: tuple[str, ...] = Field(default_factory=lambda given: _default_arms(given.get("design", DEFAULT)))
    """Arms that are measured. Repeats are left out, because there is no noise that they could show."""
    loads: tuple[float, ...] = (0.5,)
    budget_s: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    """Computing time in s of all rounds, if their number is not given: each RPC counts as 10 µs."""
    block_ms: int = Field(default=1, ge=1)
    discard_ms: int = Field(default=0, ge=0)
    network: Network = Network()
    hosts: HostCosts = HostCosts()
    max_load: float | None = Field(default=None, gt=0, le=1)
    """Maximum offered rate, as a fraction of the lowest capacity of all arms; it also limits `rate`."""
    offered: dict[str, float] = Field(default_factory=dict)  # load -> offered rate, steps/s

    @property
    def block_budget_s(self) -> float:
        return _UNLIMITED_S

    @property
    def min_rounds(self) -> int:
        return MIN_ROUNDS

    @property
    def stops_at_precision(self) -> bool:
        """Return True: intervals do not become narrow by chance, because a simulation has no noise."""
        return True

    @property
    def planned_rounds(self) -> int:
        return MIN_ROUNDS

    @property
    def cables_mbit(self) -> float:
        return self.network.rate_mbit

    @property
    def jobs_per_switch(self) -> int:
        return 1

    @property
    def workers_per_port(self) -> int:
        return self.network.rack or 1

    @classmethod
    def codec_for_defaults(cls, given: Mapping[str, object]) -> object:
        """Return None: simulated agents are compiled, whatever codec real ones would use."""
        return None

    @field_validator("script")
    @classmethod
    def _refuse_scripts(cls, script: str | None) -> str | None:
        if script is not None:
            raise ValueError("a script cannot be simulated; leave it out, or use `hotline run`")
        return script

    @field_validator("arms")
    @classmethod
    def _leave_out_repetitions(cls, arms: tuple[str, ...]) -> tuple[str, ...]:
        repeats = [arm.name for arm in arms_in_order(arms) if arm.is_repetition]
        for name in repeats:
            log.warning("arm %s is left out: a simulation has no noise that it could show", name)
        return tuple(name for name in arms if name not in repeats)

    @property
    def _max_homes(self) -> int:
        return SERVER_ROWS  # each arm has switches of its own

    @model_validator(mode="before")
    @classmethod
    def _make_enough_steps(cls, given: Any) -> Any:  # the input of pydantic, of any type
        if not isinstance(given, dict) or "trace_steps" in given:
            return given
        fields = cls.model_fields
        workers = given.get("workers", fields["workers"].default)
        lanes = given.get("profile_lanes") or PROFILE_LANES
        workload = given.get("workload", {})
        keys = workload.get("keys_per_step", R1.keys_per_step) if isinstance(workload, dict) else 0
        # Other values are left to the checks of fields. `isinstance` would accept booleans.
        if not all(type(each) is int and each > 0 for each in (workers, lanes, keys)):
            return given
        steps = max(_MIN_STEPS, math.ceil(_PROFILES_PER_TRACE * lanes / (workers * keys)))
        return {**given, "trace_steps": steps}

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        hosts = f"workers ({self.workers}) and servers ({self.servers})"
        uplinks = 0 if self.topology == "switch" else self.spines
        ports = -(-self.workers // self.workers_per_port) + self.servers + uplinks
        if ports > PORTS:
            raise ValueError(
                f"{hosts} need {ports} ports; a switch has {PORTS}: let network.rack workers share one"
            )
        if self.workers + self.servers > MAX_HOSTS:
            raise ValueError(f"{hosts}: expected at most {MAX_HOSTS} together, the routes of a switch")
        return self

    @model_validator(mode="after")
    def _check_topology(self) -> Self:
        if self.cable_mbit:
            raise ValueError(f"cable_mbit ({self.cable_mbit:g}): expected {self.setting_of_cables}")
        if self.topology == "switch":
            return self
        if self.network.uplink_mbit is not None:
            raise ValueError(
                f"network.uplink_mbit ({self.network.uplink_mbit:g}) and topology: expected oversubscription"
            )
        if self.network.rack is not None:
            raise ValueError(
                f"network.rack ({self.network.rack}) and topology: expected leaves, without racks"
            )
        if self.hosts.program_ns is not None:
            raise ValueError(
                f"hosts.program_ns ({self.hosts.program_ns}) and topology: expected switches that are devices"
            )
        return self

    @model_validator(mode="after")
    def _check_lanes(self) -> Self:
        lanes = self.network.switch_lanes
        limit = max_top_k(1, self.dim) * lanes // LANES
        if (cold := self.network.cold_lanes) not in (0, lanes):
            raise ValueError(f"network.cold_lanes ({cold}): expected 0 or network.switch_lanes ({lanes})")
        if lanes < LANES and self.design != DEFAULT:
            raise ValueError(
                f"network.switch_lanes ({lanes}) and design {self.design}: expected {LANES}; only RPCs of "
                f"design {DEFAULT} have fewer"
            )
        if self.top_k > limit:
            raise ValueError(
                f"top_k ({self.top_k}) must be at most {limit:,} with network.switch_lanes ({lanes})"
            )
        return self

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        switch_settings = [name for name in _SWITCH_SETTINGS if getattr(self.network, name)]
        if switch_settings and self.hosts.program_ns is not None:
            setting = (
                f"network.{switch_settings[0]} ({json.dumps(getattr(self.network, switch_settings[0]))})"
            )
            raise ValueError(
                f"{setting} and hosts.program_ns ({self.hosts.program_ns}) exclude each other: "
                "with program_ns the switch runs on the hosts' cores, without limits of a device"
            )
        for outage in self.network.outages:
            hosts_of_kind = self.workers if outage.host[0] == "w" else self.servers
            if int(outage.host[1:]) > hosts_of_kind:
                raise ValueError(
                    f"network.outages: expected a host from w1 to w{self.workers} or p1 to p{self.servers}, "
                    f"got {outage.host!r}"
                )
        return self


assert MAX_HOSTS < CALLERS  # rows of table `workers`: one for each host, and the controller's
DDL = SimulationConfig(workers=80, servers=20)
"""The cluster of Pan et al. §2.1: 80 workers and 20 servers at 10 Gbit/s."""
