"""Configuration of a run: defaults, overridden by CONFIG or run.toml, and both by `NAME=value` arguments."""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from typing_extensions import Self

from analysis.metrics import MIN_ROUNDS_FOR_PRECISION
from analysis.stopping import LOOKS
from controller.errors import RuleError
from controller.hotset.rules import TOP_K, find_rule, start_rule
from controller.sizes import CALLERS, SLOTS
from experiment.defaults import changed_settings, default_top_k, with_defaults
from experiment.errors import ConfigError
from experiment.faults import FRAME_FAULTS
from experiment.variables import CONFIG, VARIABLE_NAMES, VARIABLES
from experiment.worker_plan import AfterDeath, PlannedChange, plan_changes
from foundation.checkout import ROOT
from foundation.designs.arms import arms_of, measured_arms
from foundation.designs.interface import LOCKSTEP_WORKERS, Arm
from foundation.designs.registry import (
    DEFAULT,
    DEFAULT_OPTIMISING_DESIGN,
    NAMES,
    DesignError,
    described_design,
    no_optimiser_message,
)
from foundation.logs.access.block import MAX_BAD, SAMPLES_PER_STEP, ReadOptions, read_options
from foundation.logs.columns import CLOSED_LOOP, load_name
from foundation.optimisers import Optimiser
from foundation.protocol import addressing
from foundation.protocol.addressing import MAX_HOSTS_OF_A_KIND
from foundation.protocol.header import LANES, MAX_HOMES, padded_dim
from foundation.protocol.leaf_spine import LEVELS, MAX_SPINES, SPINE_SHARE, HotSetPlace, LeafSpine, Routing
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges, banks_of_row, check_dim
from foundation.settings import Strict
from foundation.text import one_line
from hosts.agent_config import Recovery, RunSettings
from hosts.compiled_agents import compiled_agents
from hosts.scapy import refusal
from hosts.workload import criteo
from hosts.workload.generator import R1, R2, Shape

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

log = logging.getLogger(__name__)

RUN_TOML = ROOT / "run.toml"
EPOCH = 1
"""Epoch of every caller: a run starts with a fresh switch."""
SERVER_ROWS = 256  # rows of table `servers`
_MAX_ARMS = max(len(arms_of(name)) for name in NAMES)
MAX_SERVERS = min(MAX_HOSTS_OF_A_KIND, SERVER_ROWS // _MAX_ARMS)
MAX_WORKERS = min(MAX_HOSTS_OF_A_KIND, (CALLERS - 1) // _MAX_ARMS - MAX_SERVERS)
"""Limit from table `workers`: each worker and server has a row in every job, and the controller has one."""


def max_top_k(jobs: int, dim: int = 1) -> int:
    """Return the maximum `top_k` of each of `jobs` offloaded jobs: 7/8, because lanes fill unevenly."""
    return LANES * SLOTS // banks_of_row(padded_dim(dim)) // jobs * 7 // 8


MAX_TOP_K = max_top_k(1)
MAX_LEAVES = MAX_HOMES
FAULT_RATES_ADVICE = "runs complete with up to 0.05 of each"
_SCHEDULER = re.compile(r"(tcp|tls)://([\w.-]+|\[[0-9a-fA-F:]+\]):\d{1,5}", re.ASCII)
_INPUT_REPR = Repr()
"""Formats values in messages; the `repr` of deeply nested tables fails."""
_INPUT_REPR.maxstring = _INPUT_REPR.maxlong = _INPUT_REPR.maxother = 200
PROFILE_LANES = 1_000_000  # default of `profile_lanes`


class Faults(Strict):
    loss: float = Field(default=0.0, ge=0, lt=1)
    duplication: float = Field(default=0.0, ge=0, lt=1)
    reordering: float = Field(default=0.0, ge=0, lt=1)

    def __str__(self) -> str:
        return ", ".join(f"{value:.3g} {name}" for name, value in self.model_dump().items() if value)

    def impairment(self, seed: int) -> str | None:
        # The value of the softswitch's option `--impair`.
        if self == Faults():
            return None
        rates = [f"{kind.option}={getattr(self, kind.name)}" for kind in FRAME_FAULTS]
        return ",".join([*rates, f"seed={seed}"])


class PlacementConfig(Strict):
    switch: Annotated[int, Field(ge=0)] | Literal["any"] | None = None
    servers: int | None = Field(default=None, ge=0)
    workers: int | None = Field(default=None, ge=0)

    @property
    def cpu_of_switch(self) -> int | None:
        return self.switch if isinstance(self.switch, int) else None


class CheckpointConfig(Strict):
    """Settings of the checkpoints that `hotline up` writes; without a file it writes none."""

    file: Path | None = None
    interval_s: float = Field(default=60.0, gt=0, le=86_400)


class Wiring(Strict):
    """How the machines of a run on several are chosen and connected; without `machines` it has no effect."""

    underlay: Literal["vxlan", "direct"] = "vxlan"
    vni: int = Field(default=0x486F00, ge=1, le=2**24 - 256)
    udp_port: int = Field(default=4789, ge=1, le=65535)
    plaintext: bool = False
    pins: dict[str, str] | None = None
    cables: dict[str, tuple[str, str]] | None = None


class WorkloadShape(Strict):
    parameters: int = Field(default=R1.parameters, ge=1, le=2**31 - 1)
    hot_parameters: int = Field(default=R1.hot, ge=1)
    hot_share: float = Field(default=R1.hot_share, gt=0, lt=1)
    keys_per_step: int = Field(default=R1.keys_per_step, ge=1)

    def shape(self) -> Shape:
        # The shapes of Pan et al.'s two applications; others are generated from their numbers alone.
        built_in_shapes = {
            (each.parameters, each.hot, each.hot_share, each.keys_per_step): each for each in (R1, R2)
        }
        sizes = (self.parameters, self.hot_parameters, self.hot_share, self.keys_per_step)
        return built_in_shapes.get(sizes) or Shape("clicks", *sizes, R1.features_per_sample)


class Config(RunSettings):
    """The settings of a run, which run.toml describes; `VARIABLES` are the settings of `make run-topo`."""

    designs_of_networks: ClassVar[tuple[str, ...]] = tuple(
        name for name in NAMES if described_design(name).has_networks
    )
    """Designs for networks of several switches."""
    design_of_place: ClassVar[Mapping[HotSetPlace, str]] = {"worker-leaves": "collect", "both": "hotset"}
    """Of the `designs_of_networks`, the only one whose hot sets may be at a place."""
    setting_of_cables: ClassVar[str] = "cable_mbit"
    """Name of the setting of `cables_mbit`."""

    target: Literal["softswitch", "bmv2"] = "softswitch"
    workers: int = Field(default=4, ge=1, le=MAX_WORKERS)
    servers: int = Field(default=2, ge=1, le=MAX_SERVERS)
    top_k: int = Field(default=20_000, ge=1, le=MAX_TOP_K)
    dim: Annotated[int, AfterValidator(check_dim)] = Field(default=1, ge=1)
    tables: Literal["one", "criteo"] = "one"
    rule: str = TOP_K
    rounds: int | None = Field(default=None, ge=1)
    precise: bool = False
    budget_s: float = Field(default=85.0, gt=0, allow_inf_nan=False)
    data: Path | None = None
    columns: str | None = None
    skip_bad: bool = False
    max_bad: float = Field(default=MAX_BAD, ge=0, le=1)
    format: str | None = None
    separator: str | None = None
    script: str | None = None
    after_death: AfterDeath = "end"
    checkpoint: CheckpointConfig = CheckpointConfig()
    kill: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    datapath: Literal["auto", "kernel", "sockets"] = "auto"
    topology: Literal["switch", "leaf-spine"] = "switch"
    leaves: int = Field(default=2, ge=2, le=MAX_LEAVES)
    spines: int = Field(default=1, ge=1, le=MAX_SPINES)
    hosts_per_leaf: int = Field(default=0, ge=0)
    hot_sets: HotSetPlace = "spine"
    spine_share: float = Field(default=SPINE_SHARE, gt=0, lt=1)
    routing: Routing = "fixed"
    oversubscription: float = Field(default=1.0, ge=0.1, le=1000)
    cable_mbit: float = Field(default=0.0, ge=0, le=10_000)
    pcap: bool = False
    cli: bool = False
    seed: int = Field(default=1, ge=0, lt=2**32)
    arms: tuple[str, ...] = Field(
        default_factory=lambda given: tuple(arm.name for arm in measured_arms(given.get("design", DEFAULT)))
    )
    loads: tuple[float, ...] = (0.5, 0.8)
    rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    block_ms: int = Field(default=400, ge=1)
    discard_ms: int = Field(default=130, ge=0)
    block_steps: int = Field(default=100, ge=1)
    trace_steps: int = Field(default=4000, ge=1)
    profile_lanes: int | None = Field(default=None, ge=1)
    calibration_s: float = Field(default=1.5, gt=0)
    empty_rpcs: int = Field(default=500, ge=0)
    simulate_dedicated_switch: bool = True
    samples_per_step: int = Field(default=SAMPLES_PER_STEP, ge=1)
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    scale: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    optimiser: Optimiser | None = None
    p4runtime_port: int = Field(default=9559, ge=1, le=65535)
    runs: Path = Path("runs")
    faults: Faults = Faults()
    placement: PlacementConfig = PlacementConfig()
    machines: str | None = None
    wiring: Wiring = Wiring()
    workload: WorkloadShape = WorkloadShape()
    _ranges_of_script: RowRanges = PrivateAttr(ONE_VALUE)
    """The rows of a script's tables, which are known when its workers have joined."""

    @property
    def read_options(self) -> ReadOptions:
        return read_options(
            self.columns, self.samples_per_step, self.skip_bad, self.format, self.separator, self.max_bad
        )

    @property
    def every_arm(self) -> tuple[Arm, ...]:
        return arms_of(self.design)

    @property
    def measured_arms(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.every_arm if arm.name in self.arms)

    @property
    def offloaded_arms(self) -> tuple[Arm, ...]:
        return tuple(arm for arm in self.measured_arms if arm.settings.aggregates)

    @property
    def leaf_spine(self) -> LeafSpine | None:
        """The network of several switches; None if all hosts are at one."""
        if self.topology != "leaf-spine":
            return None
        return LeafSpine(
            self.workers, self.servers, self.leaves, self.hot_sets, self.spines, self.hosts_per_leaf,
            self.routing, self.spine_share, self.oversubscription,
        )  # fmt: skip

    @property
    def cables_mbit(self) -> float:
        """The bandwidth of each host's cable, Mbit/s; 0 if it is not limited."""
        return self.cable_mbit

    @property
    def p4runtime_ports(self) -> range:
        """The P4Runtime port of each switch."""
        switches = 1 if self.leaf_spine is None else len(self.leaf_spine.switches)
        return range(self.p4runtime_port, self.p4runtime_port + switches)

    @property
    def switch_names(self) -> dict[str, str]:
        """The name of each switch of a network by its P4Runtime address; {} for one switch."""
        network = self.leaf_spine
        if network is None:
            return {}
        return {self.p4runtime_address(switch): network.name_of(switch) for switch in network.switches}

    def p4runtime_address(self, switch: int) -> str:
        return f"127.0.0.1:{self.p4runtime_ports[switch]}"

    @property
    def switch_interfaces(self) -> list[str]:
        """Names of the interfaces of all switches on this machine."""
        if (network := self.leaf_spine) is None:
            return addressing.switch_interfaces(self.workers, self.servers)
        return [addressing.interface(port, switch) for switch, port in network.ports()]

    @property
    def is_closed_loop(self) -> bool:
        return self.script is not None or self.is_lockstep

    @property
    def worker_plan(self) -> list[PlannedChange]:
        """The kills and joins of workers, in the order of rounds; kills come first in a round."""
        return plan_changes(self.kill, self.join, self.workers, self.after_death)

    @property
    def is_lockstep(self) -> bool:
        return described_design(self.design).is_lockstep

    @property
    def jobs_per_switch(self) -> int:
        return len(self.offloaded_arms)

    @property
    def workers_per_port(self) -> int:
        return 1  # simulated workers may share the port of a rack

    @property
    def block_budget_s(self) -> float:
        """Time budget for the blocks of `planned_rounds`, each long enough to estimate a p99, in s."""
        # Otherwise `planned_rounds` lead to the first interim look; half of the time is for later rounds.
        return self.budget_s if self.rounds or self.stops_at_precision else self.budget_s / 2

    @property
    def min_rounds(self) -> int:
        return 1  # simulated runs need more

    @property
    def stops_at_precision(self) -> bool:
        return self.precise

    @property
    def planned_rounds(self) -> int:
        return MIN_ROUNDS_FOR_PRECISION if self.stops_at_precision else LOOKS[0].rounds

    @property
    def ends_at_looks(self) -> bool:
        return self.rounds is None and not self.is_closed_loop and not self.stops_at_precision

    def loads_of_round(self, number: int) -> tuple[float, ...]:
        """Return the loads that a round, counted from 0, measures.

        Interim looks use the first load only, so every second round leaves out the other loads: more rounds
        fit into the time.
        """
        return self.loads[:1] if self.ends_at_looks and number % 2 else self.loads

    @property
    def has_room_for_profile(self) -> bool:
        # The hot set of the profile job fits beside those of the offloaded arms.
        return self.top_k <= max_top_k(len(self.offloaded_arms) + 1, self.max_dim)

    @property
    def row_ranges(self) -> RowRanges:
        """The rows of the job's keys, which are its positions in the built-in workload."""
        if self.script is not None:
            return self._ranges_of_script
        return criteo.RANGES if self.tables == "criteo" else (RowRange(0, padded_dim(self.dim)),)

    @property
    def max_dim(self) -> int:
        return max(each.dim for each in self.row_ranges)

    def with_tables_of_script(self, ranges: RowRanges) -> Self:
        """Return the settings of a run whose script has tables with these rows; raise `ConfigError`.

        A size of the hot set that is not set is that of a run with `dim` or `tables`.
        """
        config = self.model_copy()
        config._ranges_of_script = ranges
        if "top_k" not in self.model_fields_set:
            config = config.model_copy(update={"top_k": default_top_k(config.max_dim)})
        try:
            config._check_hot_set()
        except ValueError as error:
            raise ConfigError(
                f"script, whose tables have rows of up to {config.max_dim} values: {error}"
            ) from None
        return config

    @property
    def lanes_to_profile(self) -> int:
        return self.profile_lanes or PROFILE_LANES

    @model_validator(mode="before")
    @classmethod
    def _fill_in_defaults(cls, given: object) -> object:
        """Fill in the default codec, sizes that depend on it, and the default design with an optimiser."""
        if not isinstance(given, dict):
            return given
        design = (
            {"design": DEFAULT_OPTIMISING_DESIGN}
            if given.get("optimiser") and not given.get("design")
            else {}
        )
        # Scripts are compiled workers, whatever is installed.
        if "codec" not in given and given.get("script") is None and compiled_agents() is None:
            given = {**given, "codec": "scapy"}
        return with_defaults(given | design, cls.codec_for_defaults(given))

    @classmethod
    def codec_for_defaults(cls, given: Mapping[str, object]) -> object:
        return given.get("codec")

    @field_validator("design")
    @classmethod
    def _check_design(cls, name: str) -> str:
        try:
            described_design(name)
        except DesignError as error:
            raise ValueError(str(error)) from None
        return name

    @field_validator("machines")
    @classmethod
    def _check_scheduler(cls, address: str | None) -> str | None:
        if address is not None and not _SCHEDULER.fullmatch(address):
            raise ValueError("expected the address of a dask scheduler, tls://HOST:PORT or tcp://HOST:PORT")
        return address

    @field_validator("rule")
    @classmethod
    def _find_rule(cls, name: str) -> str:
        try:
            if name != TOP_K:
                find_rule(name)
        except RuleError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_lockstep:
            self._check_lockstep()
        elif self.script is not None:
            self._check_script()
        elif not self.loads or not all(0 < load <= 1 for load in self.loads):
            loads = ", ".join(map(str, self.loads))
            raise ValueError(f"loads ({loads}) must be one fraction or more, each above 0 and at most 1")
        if len(set(map(load_name, self.loads))) < len(self.loads):
            raise ValueError(f"loads ({', '.join(map(load_name, self.loads))}) must differ")
        references = {arm.name: arm.reference for arm in self.every_arm if arm.is_measured}
        # An arm needs the one that it is compared with; a reference is compared with none.
        required_arms = {references[name] or name for name in self.arms if name in references}
        if (
            not required_arms
            or not required_arms <= set(self.arms) <= set(references)
            or len(set(self.arms)) < len(self.arms)
        ):
            reference_names = " and ".join(
                name for name, reference in references.items() if reference is None
            )
            raise ValueError(
                f"arms ({', '.join(self.arms)}) must be some of {', '.join(references)}, including "
                f"{reference_names}"
            )
        self._check_hot_set()
        if self.tables != "one":
            self._check_tables()
        elif self.dim > 1:
            self._check_rows(f"dim ({self.dim})", "dim")
        if self.workload.hot_parameters >= self.workload.parameters:
            expected = f"less than its parameters ({self.workload.parameters:,})"
            raise ValueError(f"workload.hot_parameters ({self.workload.hot_parameters:,}) must be {expected}")
        if self.recovery != Recovery() and not described_design(self.design).is_durable:
            raise ValueError(
                f"recovery and design {self.design}: its servers keep no journal, and its workers no replay "
                "log; leave recovery out"
            )
        if self.optimiser is not None:
            self._check_optimiser(self.optimiser)
        if self.after_death != "end":
            self._check_after_death()
        plan_changes(self.kill, self.join, self.workers, self.after_death)
        if self.codec != "fast":
            self._check_scapy()
        if self.discard_ms >= self.block_ms:
            raise ValueError(f"discard_ms ({self.discard_ms}) must be less than block_ms ({self.block_ms})")
        if self.target == "bmv2" and "datapath" in self.model_fields_set:
            raise ValueError("datapath is a feature of the softswitch; target bmv2 has none")
        if self.datapath == "kernel" and self.faults != Faults():
            raise ValueError("faults need datapath sockets, which injects them; datapath kernel has none")
        if self.target == "bmv2" and self.faults != Faults():
            raise ValueError("faults are a feature of the softswitch; target bmv2 has none")
        if self.machines is not None:
            self._check_machines(self.machines)
        if self.topology == "leaf-spine":
            self._check_leaf_spine()
        else:
            self._check_one_switch()
        return self

    def _check_one_switch(self) -> None:
        for name in ("hosts_per_leaf", "routing", "oversubscription"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f'{name} = {getattr(self, name)} and topology "switch": expected topology "leaf-spine"'
                )

    @property
    def has_hot_sets_at_several_switches(self) -> bool:
        return self.topology == "leaf-spine" and (self.hot_sets != "spine" or self.spines > 1)

    @property
    def _max_homes(self) -> int:
        """Maximum number of homes of all servers together: each has a row for each job in table `servers`."""
        return SERVER_ROWS // len(self.every_arm)

    @property
    def _filled_leaves(self) -> str:
        """What `hosts_per_leaf` asks for."""
        hosts = self.workers + self.servers
        if self.hosts_per_leaf >= hosts:
            return f"expected less than {hosts} hosts at each, as there are no more"
        needed = -(-hosts // max(1, self.hosts_per_leaf))
        return f"expected {needed} leaves, which {hosts} hosts fill"

    def _check_leaf_spine(self) -> None:
        """Raise for what a network of several switches does not have."""
        at_several_switches = self.has_hot_sets_at_several_switches
        place_design = self.design_of_place.get(self.hot_sets, self.design)
        network = self.leaf_spine
        assert network is not None
        refusals = {
            f"design {self.design}: expected {' or '.join(self.designs_of_networks)}":
                self.design not in self.designs_of_networks,
            f'hot_sets "{self.hot_sets}" and design {self.design}: expected "spine", as it has no hot set':
                self.is_lockstep and self.hot_sets != "spine",
            f'hot_sets "{self.hot_sets}" and design {self.design}: expected {place_design}':
                self.design in Config.designs_of_networks and self.design != place_design,
            f'hot_sets "both" and servers ({self.servers}): expected at most {self._max_homes // LEVELS}, as '
            "the table of servers has no room for more that have two homes":
                self.hot_sets == "both" and LEVELS * self.servers > self._max_homes,
            f"hosts_per_leaf ({self.hosts_per_leaf}) and leaves ({self.leaves}): {self._filled_leaves}":
                bool(self.hosts_per_leaf) and -(-len(network.hosts) // self.hosts_per_leaf) != self.leaves,
            f'routing "{self.routing}" and spines 1: expected 2 spines or more, or routing "fixed"':
                network.has_bundles and self.spines == 1,
            f'routing "{self.routing}" and hot_sets "{self.hot_sets}": expected hot_sets "leaves" or '
            '"worker-leaves", as a spine would miss turns of a slot that take another one':
                network.has_bundles and any(map(network.is_spine, network.homes)),
            f"oversubscription ({self.oversubscription:g}) and {self.setting_of_cables} 0: expected the "
            "bandwidth of a host's cable, of which that of uplinks is a multiple":
                self.oversubscription != 1 and not self.cables_mbit,
            "target bmv2: expected softswitch": self.target != "softswitch",
            "machines: expected a run on this machine": self.machines is not None,
            "script and hot sets at several switches: expected the workers of Hotline":
                at_several_switches and self.script is not None,
            f"codec {self.codec} and hot sets at several switches: expected compiled workers":
                at_several_switches and self.codec != "fast",
            'after_death and several homes of a worker: expected hot_sets "worker-leaves", or "spine" and '
            "spines 1":
                at_several_switches and self.hot_sets != "worker-leaves" and self.after_death != "end",
            f'hot_sets "worker-leaves", leaves ({self.leaves}) and servers ({self.servers}): expected at '
            f"most {self._max_homes} of servers times leaves, as the table of servers has no room for more":
                self.hot_sets == "worker-leaves" and len(network.homes) * self.servers > self._max_homes,
            f"leaves ({self.leaves}): expected a worker at each, of which there are {self.workers}":
                not self.hosts_per_leaf and self.leaves > self.workers,
        }  # fmt: skip
        for message, applies in refusals.items():
            if applies:
                raise ValueError(f'topology "leaf-spine" and {message}')

    def _check_after_death(self) -> None:
        setting = f'after_death ("{self.after_death}")'
        if self.is_lockstep:
            raise ValueError(
                f"{setting} and design {self.design}: its workers wait for each other in every push, and "
                'each has the whole model; expected "end"'
            )
        if self.optimiser is not None:
            raise ValueError(
                f"{setting} and optimiser ({self.optimiser}): servers would not know which pushes of a dead "
                'worker an optimiser has had; expected "end", or no optimiser'
            )

    def _check_machines(self, machines: str) -> None:
        refused = {
            "target": (self.target != "softswitch", "the switch is softswitch there"),
            "cable_mbit": (self.cable_mbit > 0, "machines have cables of their own"),
            "codec": (self.codec != "fast", "agents are compiled there"),
            "cli": (self.cli, "Mininet's command line is for its own network"),
            "pcap": (self.pcap, "packets are captured on one machine"),
            "placement": (self.placement != PlacementConfig(), "each machine places its own agents"),
        }
        for name, (is_refused, reason) in refused.items():
            if is_refused:
                raise ValueError(f"{name} and machines ({machines}): {reason}; leave {name} out")
        hosts = {f"w{number}" for number in range(1, self.workers + 1)}
        hosts |= {f"p{number}" for number in range(1, self.servers + 1)}
        pins, cables = self.wiring.pins or {}, self.wiring.cables or {}
        for setting, names, known in (("pins", pins, hosts | {"switch"}), ("cables", cables, hosts)):
            if unknown := sorted(names.keys() - known):
                raise ValueError(
                    f"wiring.{setting}: expected hosts w1 to w{self.workers} and p1 to p{self.servers}, got "
                    f"{unknown[0]}"
                )
        if self.wiring.underlay == "direct" and (missing := sorted(hosts - cables.keys())):
            raise ValueError(
                f'wiring.cables: expected an entry for each host with underlay "direct", found none for '
                f"{missing[0]}"
            )
        if self.wiring.underlay == "vxlan" and cables:
            raise ValueError('wiring.cables and underlay "vxlan": cables are for underlay "direct"')

    def _check_tables(self) -> None:
        name = f"tables ({self.tables})"
        if self.dim != 1:
            raise ValueError(f"dim ({self.dim}) and {name}: its tables have dims; leave one out")
        if self.data is not None:
            raise ValueError(f"data and {name}: data are a workload of their own; leave one out")
        self._check_rows(name, "tables")

    def _check_rows(self, setting: str, name: str) -> None:
        """Raise `ValueError` if the design or a script takes no rows of more than one value."""
        if not described_design(self.design).has_rows:
            names = ", ".join(name for name in NAMES if described_design(name).has_rows)
            raise ValueError(
                f"{setting} and design {self.design}: its packets have no rows; expected design "
                f"{names}, or no {name}"
            )
        if self.script is not None:
            raise ValueError(f"{setting} and script: a script gives its tables their dims; leave {name} out")

    def _check_hot_set(self) -> None:
        """Raise `ValueError` if the switch has no room for the hot sets, or no rule chooses such a one."""
        limit = max_top_k(max(1, self.jobs_per_switch), self.max_dim)
        if self.top_k > limit and not self.is_lockstep:
            offloaded = " and ".join(arm.name for arm in self.offloaded_arms)
            of_rows = "" if self.max_dim == 1 else f" of rows of {self.max_dim} values"
            raise ValueError(f"top_k ({self.top_k}) must be at most {limit:,} with arms {offloaded}{of_rows}")
        if self.rule != TOP_K:
            self._check_rule()

    def _check_rule(self) -> None:
        if described_design(self.design).preparation is None:
            raise ValueError(
                f"rule ({self.rule}) and design {self.design}: its switch holds no chosen parameters; leave "
                "rule out"
            )
        try:
            start_rule(self.rule, self.top_k)
        except RuleError as error:
            raise ValueError(str(error)) from None

    def _check_scapy(self) -> None:
        reason = refusal(
            self.codec, self.design, has_optimiser=self.optimiser is not None,
            has_recovery=self.recovery != Recovery(),
        )  # fmt: skip
        if reason is not None:
            raise ValueError(reason)

    def _check_optimiser(self, optimiser: Optimiser) -> None:
        if not described_design(self.design).optimises:
            raise ValueError(no_optimiser_message(self.design, str(optimiser)))
        if self.script is not None:
            raise ValueError(
                f"optimiser ({optimiser}) and script: a script gives hotline.Worker the optimisers of its "
                "tables; leave optimiser out"
            )
        if self.learning_rate is not None:
            raise ValueError(
                f"optimiser ({optimiser}) and learning_rate ({self.learning_rate:g}): the optimiser sets the "
                "rate; leave learning_rate out"
            )

    def _check_lockstep(self) -> None:
        low, high = LOCKSTEP_WORKERS
        if not low <= self.workers <= high:
            raise ValueError(f"workers ({self.workers}) must be {low} to {high} with design {self.design}")
        if self.script is not None:
            raise ValueError(
                f"design ({self.design}) and script: workers of this design push together, and scripts do "
                "not; leave one out"
            )
        if self.loads != (CLOSED_LOOP,) or self.rate is not None:
            raise ValueError(
                f"loads, rate and design {self.design}: its workers wait for each other, in a closed loop; "
                "leave loads and rate out"
            )
        if self.empty_rpcs:
            raise ValueError(f"empty_rpcs ({self.empty_rpcs}) must be 0 with design {self.design}")

    def _check_script(self) -> None:
        if not _words_of(self.script or ""):
            raise ValueError(f"script ({self.script!r}) must be a Python script's path, and its arguments")
        if self.data is not None:
            raise ValueError("data and script: a script has data of its own; leave one out")
        if self.codec != "fast":
            raise ValueError(
                f"codec ({self.codec}) and script: scripts are compiled workers; leave codec out"
            )
        if self.loads != (CLOSED_LOOP,) or self.rate is not None:
            raise ValueError("loads, rate and script: scripts run in a closed loop; leave loads and rate out")
        if self.recovery != Recovery():
            raise ValueError("recovery and script: scripts keep no replay logs; leave recovery out")
        if self.empty_rpcs:
            raise ValueError(f"empty_rpcs ({self.empty_rpcs}) and script: scripts send none; leave it out")

    @property
    def script_command(self) -> list[str]:
        return _words_of(self.script or "")


def _words_of(script: str) -> list[str]:
    try:
        return shlex.split(script)
    except ValueError:  # a quotation without an end
        return []


AnyConfig = TypeVar("AnyConfig", bound=Config)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def load_config(arguments: Iterable[str]) -> Config:
    """Return the configuration of a real run; without CONFIG it has what the checkout's run.toml changes."""
    return load_config_as(Config, arguments, default_file=RUN_TOML)


def load_config_as(
    model: type[AnyConfig],
    arguments: Iterable[str],
    settings: Mapping[str, object] | None = None,
    default_file: Path | None = None,
) -> AnyConfig:
    overrides = settings or {}
    variables = dict(_split_argument(argument) for argument in arguments)
    file, source, values = variables.pop(CONFIG, None), "", dict[str, object]()
    if file is not None:
        source = f"CONFIG={file}"
        values = read_toml(Path(file), source)
    elif default_file is not None and default_file.exists():
        listed = read_toml(default_file, str(default_file))
        if values := changed_settings(listed, model().model_dump(mode="json")):
            source = str(default_file)
            log.info("%s: %s", source, ", ".join(_assignments(values)))
    given = {VARIABLES[name].setting: value for name, value in variables.items()}
    try:
        return model.model_validate({**values, **given, **overrides})
    except ValidationError as error:
        first_error = error.errors()[0]
        if first_error["loc"] and first_error["loc"][0] in overrides:
            raise ConfigError(_message_of_setting(first_error, model)) from None
        raise ConfigError(_message_with_source(first_error, given, source, model)) from None


def _assignments(values: Mapping[str, object], prefix: str = "") -> Iterable[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _assignments(value, f"{prefix}{name}.")
        else:
            yield one_line(f"{prefix}{name} = {_INPUT_REPR.repr(value)}")


def config_of(model: type[AnyModel], values: Mapping[str, object]) -> AnyModel:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_message_of_setting(error.errors()[0], model)) from None


def _split_argument(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    argument = one_line(argument)  # for messages
    names = ", ".join(VARIABLE_NAMES)
    if not equals:
        raise ConfigError(f"{argument}: expected NAME=value, where NAME is one of {names}")
    if name not in VARIABLE_NAMES:
        similar = get_close_matches(name, VARIABLES, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        raise ConfigError(f"{argument}: there is no variable {name}; there are {names}{hint}")
    if not value:
        raise ConfigError(f"{name}=: has no value; leave {name} out for its default")
    return name, value


def read_toml(file: Path, label: str) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"{label}: {error.strerror}") from None
    # Python refuses numbers with too many digits and tables with too many levels.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{label}: not TOML: {error}") from None


def _message_with_source(
    error: ErrorDetails, given: Mapping[str, str], source: str, model: type[Config]
) -> str:
    field = ".".join(map(str, error["loc"]))
    for name, variable in VARIABLES.items():
        if variable.setting == field and field in given:
            return f"{name}={one_line(given[field])}: {_message(error, model)}"
    return f"{f'{source}: ' if source else ''}{_message_of_setting(error, model)}"


def _message_of_setting(error: ErrorDetails, model: type[BaseModel]) -> str:
    field = one_line(".".join(map(str, error["loc"])))
    message = _message(error, model)
    return f"{field} = {_INPUT_REPR.repr(error['input'])}: {message}" if field else message


def _message(error: ErrorDetails, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        names = list(_sibling_names(error["loc"], model))
        similar = get_close_matches(str(error["loc"][-1]), names, n=1)
        hint = f"; did you mean {similar[0]}?" if similar else ""
        return f"there is no such setting; there are {', '.join(names)}{hint}"
    return one_line(error["msg"].removeprefix("Value error, "))


def _sibling_names(path: tuple[int | str, ...], model: type[BaseModel]) -> Iterable[str]:
    if len(path) == 1:
        return model.model_fields
    table: Any = model.model_fields[str(path[0])].annotation  # a model, as the path continues in it
    names: Iterable[str] = table.model_fields
    return names
