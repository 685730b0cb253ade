"""Configuration of a run: defaults, then the file that CONFIG names, then variables of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, Literal, TypeVar

import tomli
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from typing_extensions import Self

from analysis.precision import LEAST_ROUNDS
from controller.tables import ROWS, SLOTS
from experiment.errors import ConfigError
from experiment.faults import ON_THE_WAY
from experiment.sizes import with_sizes
from foundation.designs.arms import arms_of, measured
from foundation.designs.interface import LOCKSTEP_WORKERS, Arm
from foundation.designs.registry import DEFAULT, NAMES, DesignError
from foundation.designs.registry import design as find_design
from foundation.logs.columns import CLOSED_LOOP, load_name
from foundation.logs.libsvm import SAMPLES_PER_STEP
from foundation.protocol.addressing import MAX_HOSTS_OF_A_KIND
from foundation.protocol.header import LANES
from foundation.settings import Strict
from foundation.words import one_line
from hosts.config import Recovery, RunSettings
from hosts.workload.generator import R1, R2, Shape

EPOCH = 1
"""Epoch of every caller: a run starts with a fresh switch."""
SERVER_ROWS = 256
"""Size of table `servers`."""
_MOST_ARMS = max(len(arms_of(name)) for name in NAMES)
MAX_SERVERS = min(MAX_HOSTS_OF_A_KIND, SERVER_ROWS // _MOST_ARMS)
MAX_WORKERS = min(MAX_HOSTS_OF_A_KIND, (ROWS - 1) // _MOST_ARMS - MAX_SERVERS)
"""Every worker and server calls in every job; one row is the controller's."""


def max_top_k(jobs: int) -> int:
    """Keys of each of so many offloaded jobs; an eighth of the slots is for lanes that get more."""
    return LANES * SLOTS // jobs * 7 // 8


MAX_TOP_K = max_top_k(1)
VARIABLES = {
    "DESIGN": "design",
    "TARGET": "target",
    "WORKERS": "workers",
    "PS": "servers",
    "TOP_K": "top_k",
    "ROUNDS": "rounds",
    "DATA": "data",
    "SCRIPT": "script",
    "CODEC": "codec",
    "DATAPATH": "datapath",
    "PCAP": "pcap",
    "CLI": "cli",
    "SEED": "seed",
}
"""Variable of `make run-topo` -> field of `Config`."""
FAULTS_LIMIT = "runs end well with up to 0.05 of each"
_SHOWN = Repr()
"""How messages have values: tables of many levels have no `repr`."""
_SHOWN.maxstring = _SHOWN.maxlong = _SHOWN.maxother = 200
PROFILE_LANES = 1_000_000
"""Pushed lanes that the hot set is chosen from, where nobody has said how many."""


class Faults(Strict):
    """What the softswitch does to frames on every port, in both directions; each a probability."""

    loss: float = Field(default=0.0, ge=0, lt=1)
    duplication: float = Field(default=0.0, ge=0, lt=1)
    reordering: float = Field(default=0.0, ge=0, lt=1)

    def __str__(self) -> str:
        return ", ".join(f"{value:.3g} {name}" for name, value in self.model_dump().items() if value)

    def impairment(self, seed: int) -> str | None:
        """The same in the words of the softswitch's `--impair`; None for no faults."""
        if self == Faults():
            return None
        rates = [f"{kind.option}={getattr(self, kind.name)}" for kind in ON_THE_WAY]
        return ",".join([*rates, f"seed={seed}"])


class PlacementConfig(Strict):
    """CPU of each kind of process; None leaves the choice to `topologies.placement`."""

    switch: Annotated[int, Field(ge=0)] | Literal["any"] | None = None
    """Any: a process is where the kernel puts it, and a program in the kernel where its frames come from."""
    servers: int | None = Field(default=None, ge=0)
    workers: int | None = Field(default=None, ge=0)

    @property
    def cpu_of_switch(self) -> int | None:
        """Its number, where it is told."""
        return self.switch if isinstance(self.switch, int) else None


class WorkloadShape(Strict):
    """The built-in click data: their size and skew."""

    parameters: int = Field(default=R1.parameters, ge=1, le=2**31 - 1)
    top: int = Field(default=R1.hot, ge=1)
    share: float = Field(default=R1.hot_share, gt=0, lt=1)
    """Of all updates that the `top` parameters take."""
    keys_per_step: int = Field(default=R1.keys_per_step, ge=1)

    def shape(self) -> Shape:
        """As the generator has it; named if it is one of [DDL]'s."""
        known = {(each.parameters, each.hot, each.hot_share, each.keys_per_step): each for each in (R1, R2)}
        wanted = (self.parameters, self.top, self.share, self.keys_per_step)
        return known.get(wanted) or Shape("clicks", *wanted, R1.features_per_sample)


def _arms(design: str) -> tuple[str, ...]:
    return tuple(arm.name for arm in measured(design))


class Config(RunSettings):
    """All that a run can be told. Comments say the variable of `make run-topo` where there is one."""

    target: Literal["softswitch", "bmv2"] = "softswitch"
    """TARGET"""
    workers: int = Field(default=4, ge=1, le=MAX_WORKERS)
    """WORKERS"""
    servers: int = Field(default=2, ge=1, le=MAX_SERVERS)
    """PS: number of parameter servers."""
    top_k: int = Field(default=20_000, ge=1, le=MAX_TOP_K)
    """TOP_K: size of the hot set; of a vector where workers add up vectors."""
    rounds: int | None = Field(default=None, ge=1)
    """ROUNDS: each has a block for every arm and load; None is as many as the intervals take."""
    budget_s: float = Field(default=100.0, gt=0, allow_inf_nan=False)
    """Duration of all rounds, where their number is not given."""
    data: Path | None = None
    """DATA: a libsvm training set or an update log; None is the built-in R1 workload."""
    script: str | None = None
    """SCRIPT: a Python script, with its arguments, that is a worker (`hotline.Worker`); None is our own."""
    datapath: Literal["auto", "kernel", "sockets"] = "auto"
    """DATAPATH: where the softswitch processes packets; auto is in the kernel where it can."""
    pcap: bool = False
    """PCAP: capture at every port of the switch."""
    cli: bool = False
    """CLI: stay in Mininet's command line at the end."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """SEED of workload, order of arms and faults."""
    arms: tuple[str, ...] = Field(default_factory=lambda given: _arms(given.get("design", DEFAULT)))
    """Arms that are measured, with those that others of them are compared with."""
    loads: tuple[float, ...] = (0.5, 0.8)
    """Offered load, as fractions of what the arm that carries least does in a closed loop; or of `rate`.
    Scripts run in a closed loop."""
    rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Steps/s of all workers, where runs are to be compared with one another."""
    block_ms: int = Field(default=550, ge=1)
    """Least duration of one arm at one load in one round."""
    discard_ms: int = Field(default=200, ge=0)
    """First part of a block that is not measured."""
    block_steps: int = Field(default=100, ge=1)
    """Least number of measured steps of a block, as far as `budget_s` has room for them."""
    trace_steps: int = Field(default=4000, ge=1)
    """Steps of each worker in the built-in workload; a longer run begins again."""
    profile_lanes: int | None = Field(default=None, ge=1)
    """Pushed lanes to choose the hot set from, one pass at most; None is 1,000,000."""
    calibration_s: float = Field(default=2.0, gt=0)
    """Closed loop of each arm before the first round."""
    empty_rpcs: int = Field(default=500, ge=0)
    """RPCs without lanes, of each worker, that measure the emulator itself."""
    virtual_time: bool = True
    """Say what a switch of its own would do, computed behind the run (`topologies.simulation`)."""
    samples_per_step: int = Field(default=SAMPLES_PER_STEP, ge=1)
    """Mini-batch of a libsvm training set."""
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Factor of the gradient of a mini-batch's mean log loss; None is chosen from the data."""
    scale: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Units of the fixed-point values per 1.0; None is chosen from the data, 2^20 where features are 1."""
    p4runtime_port: int = Field(default=9559, ge=1, le=65535)
    """TCP port of the switch's P4Runtime server, on the loopback address."""
    runs: Path = Path("runs")
    """Folder of the run folders."""
    faults: Faults = Faults()
    placement: PlacementConfig = PlacementConfig()
    workload: WorkloadShape = WorkloadShape()

    @property
    def every_arm(self) -> tuple[Arm, ...]:
        """All arms of the design, measured or not: a job each, at agents and switch."""
        return arms_of(self.design)

    @property
    def measured(self) -> tuple[Arm, ...]:
        """Those that are measured, in the order of all arms."""
        return tuple(arm for arm in self.every_arm if arm.name in self.arms)

    @property
    def offloaded(self) -> tuple[Arm, ...]:
        """Those of them with the hot set in the switch."""
        return tuple(arm for arm in self.measured if arm.settings.aggregates)

    @property
    def is_closed_loop(self) -> bool:
        """Whether workers take their next step when they are ready for it, and not at a given rate."""
        return self.script is not None or self.is_lockstep

    @property
    def is_lockstep(self) -> bool:
        """Whether workers push together, and each of them holds all parameters."""
        return find_design(self.design).is_lockstep

    @property
    def jobs_at_a_switch(self) -> int:
        """How many of them share its tables."""
        return len(self.offloaded)

    @property
    def workers_at_a_port(self) -> int:
        """How many share a port of the switch."""
        return 1

    @property
    def seconds_of_blocks(self) -> float:
        """That all blocks may last together, where each is to have as many steps as a p99 takes."""
        return self.budget_s

    @property
    def rounds_whatever_it_takes(self) -> int:
        """Rounds that are made even beyond the budget, where their number is not given."""
        return 1

    @property
    def rounds_to_be_precise(self) -> int:
        """Rounds before which no run ends for its precision."""
        return LEAST_ROUNDS

    @property
    def keeps_profile(self) -> bool:
        """Whether the tables have room for the profile job's hot set beside those of the arms."""
        return self.top_k <= max_top_k(len(self.offloaded) + 1)

    @property
    def lanes_to_profile(self) -> int:
        """`profile_lanes`, or its default."""
        return self.profile_lanes or PROFILE_LANES

    @model_validator(mode="before")
    @classmethod
    def _size(cls, given: Any) -> Any:  # whatever pydantic is given
        """What agents carry depends on their codec, where nobody has said how much."""
        return with_sizes(given, cls.sized_for(given)) if isinstance(given, dict) else given

    @classmethod
    def sized_for(cls, given: Mapping[str, object]) -> object:
        """The codec that sizes are chosen for."""
        return given.get("codec")

    @field_validator("design")
    @classmethod
    def _check_design(cls, name: str) -> str:
        try:
            find_design(name)
        except DesignError as error:
            raise ValueError(str(error)) from None
        return name

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.is_lockstep:
            self._check_lockstep()
        elif self.script is not None:
            self._check_script()
        elif not self.loads or not all(0 < load <= 1 for load in self.loads):
            raise ValueError("loads must be fractions above 0 and at most 1, at least one")
        if len(set(map(load_name, self.loads))) < len(self.loads):
            raise ValueError(f"loads ({', '.join(map(load_name, self.loads))}) must differ")
        known = {arm.name: arm.baseline for arm in self.every_arm if arm.is_measured}
        needed = {known[name] or name for name in self.arms if name in known}
        if not needed or not needed <= set(self.arms) <= set(known) or len(set(self.arms)) < len(self.arms):
            compared_with = " and ".join(name for name, baseline in known.items() if baseline is None)
            raise ValueError(
                f"arms ({', '.join(self.arms)}) must be some of {', '.join(known)}, with {compared_with}"
            )
        most = max_top_k(max(1, self.jobs_at_a_switch))
        if self.top_k > most and not self.is_lockstep:
            with_hot = " and ".join(arm.name for arm in self.offloaded)
            raise ValueError(f"top_k ({self.top_k}) must be at most {most:,} with arms {with_hot}")
        if self.workload.top >= self.workload.parameters:
            wanted = f"less than its parameters ({self.workload.parameters:,})"
            raise ValueError(f"workload.top ({self.workload.top:,}) must be {wanted}")
        if self.recovery != Recovery() and not find_design(self.design).is_durable:
            raise ValueError(
                f"recovery and design {self.design}: its servers keep no journal, and its workers no replay "
                "log; leave recovery out"
            )
        if self.discard_ms >= self.block_ms:
            raise ValueError(f"discard_ms ({self.discard_ms}) must be less than block_ms ({self.block_ms})")
        if self.target == "bmv2" and "datapath" in self.model_fields_set:
            raise ValueError("datapath is a feature of the softswitch; target bmv2 has none")
        if self.datapath == "kernel" and self.faults != Faults():
            raise ValueError("faults are made by the sockets: datapath kernel has none")
        if self.target == "bmv2" and self.faults != Faults():
            raise ValueError("faults are a feature of the softswitch; target bmv2 has none")
        return self

    def _check_lockstep(self) -> None:
        """What workers that wait for each other cannot have."""
        least, most = LOCKSTEP_WORKERS
        if not least <= self.workers <= most:
            raise ValueError(f"workers ({self.workers}) must be {least} to {most} with design {self.design}")
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
        """What scripts cannot have."""
        if not _words_of(self.script or ""):
            raise ValueError(f"script ({self.script!r}) must be a Python script's path, and its arguments")
        if self.data is not None:
            raise ValueError("data and script: a script has data of its own; give one of both")
        if self.codec != "fast":
            raise ValueError(f"codec ({self.codec}) and script: scripts have the fast codec")
        if self.loads != (CLOSED_LOOP,) or self.rate is not None:
            raise ValueError("loads, rate and script: scripts run in a closed loop; leave loads and rate out")
        if self.recovery != Recovery():
            raise ValueError("recovery and script: scripts keep no replay logs; leave recovery out")
        if self.empty_rpcs:
            raise ValueError(f"empty_rpcs ({self.empty_rpcs}) and script: scripts send none; leave it out")

    @property
    def script_command(self) -> list[str]:
        """Path of the script, and its arguments; none without one."""
        return _words_of(self.script or "")


def _words_of(script: str) -> list[str]:
    """As a shell splits them; none of what it cannot."""
    try:
        return shlex.split(script)
    except ValueError:  # quotes that do not end
        return []


AnyConfig = TypeVar("AnyConfig", bound=Config)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


def load_config(arguments: Iterable[str]) -> Config:
    """The configuration from `NAME=value` arguments; ConfigError names the value and what is right."""
    return load_config_as(Config, arguments)


def load_config_as(
    model: type[AnyConfig], arguments: Iterable[str], settings: Mapping[str, object] | None = None
) -> AnyConfig:
    """The same of a configuration that has more settings; those of Python's own go above all others."""
    mine = settings or {}
    variables = dict(_split(argument) for argument in arguments)
    file = variables.pop("CONFIG", None)
    values = {} if file is None else _read(Path(file))
    given = {VARIABLES[name]: value for name, value in variables.items()}
    try:
        return model.model_validate({**values, **given, **mine})
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] and first["loc"][0] in mine:
            raise ConfigError(_complaint(first, model)) from None
        raise ConfigError(_describe(first, given, file, model)) from None


def config_of(model: type[AnyModel], values: Mapping[str, object]) -> AnyModel:
    """The same of values that were put together; ConfigError names the setting."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_complaint(error.errors()[0], model)) from None


def _split(argument: str) -> tuple[str, str]:
    name, equals, value = argument.partition("=")
    names = ", ".join((*VARIABLES, "CONFIG"))
    if not equals:
        raise ConfigError(f"{argument}: expected NAME=value, where NAME is one of {names}")
    if name not in (*VARIABLES, "CONFIG"):
        raise ConfigError(f"{argument}: there is no variable {name}; there are {names}")
    if not value:
        raise ConfigError(f"{name}=: has no value; leave {name} out for its default")
    return name, value


def _read(file: Path) -> dict[str, object]:
    try:
        return tomli.loads(file.read_text())
    except OSError as error:
        raise ConfigError(f"CONFIG={file}: {error.strerror}") from None
    # A number may have too many digits, and tables too many levels, for Python.
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"CONFIG={file}: not TOML: {error}") from None


def _describe(error: ErrorDetails, given: Mapping[str, str], file: str | None, model: type[Config]) -> str:
    """One line: the value, where it was given, and what would be right."""
    field = ".".join(map(str, error["loc"]))
    for variable, name in VARIABLES.items():
        if name == field and name in given:
            return f"{variable}={given[name]}: {_message(error, model)}"
    return f"{'' if file is None else f'CONFIG={file}: '}{_complaint(error, model)}"


def _complaint(error: ErrorDetails, model: type[BaseModel]) -> str:
    field = one_line(".".join(map(str, error["loc"])))
    message = _message(error, model)
    return f"{field} = {_SHOWN.repr(error['input'])}: {message}" if field else message


def _message(error: ErrorDetails, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        names = list(_siblings(error["loc"], model))
        meant = get_close_matches(str(error["loc"][-1]), names, n=1)
        hint = f"; did you mean {meant[0]}?" if meant else ""
        return f"there is no such setting; there are {', '.join(names)}{hint}"
    return one_line(error["msg"].removeprefix("Value error, "))


def _siblings(path: tuple[int | str, ...], model: type[BaseModel]) -> Iterable[str]:
    """Names of the settings of the table that a setting is in."""
    if len(path) == 1:
        return model.model_fields
    table: Any = model.model_fields[str(path[0])].annotation  # a model, where a setting is in it
    names: Iterable[str] = table.model_fields
    return names
