"""The interface of a design of aggregation: read this before you write a design.

A design is a P4 program, the code of its workers and servers, the code of its controller, and the arms in
which it is measured. A `Design` describes it and names its parts. An entry point of the group
`hotline.designs` names the `Design`, in the `pyproject.toml` of the distribution that has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NamedTuple

from foundation.designs.combination import Combination
from foundation.designs.sources import P4INFO_SUFFIX, SUFFIX, output_of
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from foundation.protocol.leaf_spine import LeafSpine

S = TypeVar("S")  # class of the settings of a design in an arm
LOCKSTEP_WORKERS = (2, 32)
"""Minimum and maximum number of workers that push together: a bitmap of 32 bits has one bit for each."""


class SwitchHosts(NamedTuple):
    """The hosts at a switch. Workers and servers are numbered from 1."""

    workers: int
    servers: int
    workers_per_port: int = 1
    jobs: int = 1
    """Number of jobs with dedicated workers and servers, which are numbered job by job; with 1, all jobs
    share the hosts."""

    def worker(self, number: int, job: int) -> int:
        """Return the number of a job's worker among all workers; jobs count from 0."""
        return number + (job * self.workers if self.jobs > 1 else 0)

    def server(self, number: int, job: int) -> int:
        return number + (job * self.servers if self.jobs > 1 else 0)

    @property
    def all_workers(self) -> int:
        return self.jobs * self.workers

    @property
    def all_servers(self) -> int:
        return self.jobs * self.servers

    def worker_port(self, number: int) -> int:
        """Return the port of a worker, by its number among all workers; likewise for servers."""
        return addressing.worker_port(number, self.workers_per_port)

    def server_port(self, number: int) -> int:
        return addressing.server_port(self.all_workers, number, self.workers_per_port)


K_contra = TypeVar("K_contra", contravariant=True)  # type of the controller


R = TypeVar("R")  # type of a row of a table
ReadValues: TypeAlias = Callable[[K_contra, Sequence["Arm"], Any], Awaitable[dict[str, NDArray[np.uint32]]]]


class ControllerOps(NamedTuple, Generic[K_contra, R]):
    """A design's functions of the controller (`controller.controller_ops`); None where a design lacks one."""

    rows: Callable[[SwitchHosts, Sequence[Arm], int], list[R]]
    """(hosts, arms, epoch): return the initial rows of the switch's tables; callers have that epoch."""
    is_changed: Callable[[K_contra, Arm], Awaitable[bool]] | None = None
    """(controller, arm): return whether the switch has other settings than the arm's; None if there are no
    settings that can change."""
    read_values: ReadValues[K_contra] | None = None
    """(controller, arms, space): return, by arm, the values that the switch holds, by place in the value
    space, and 0 elsewhere; `space` is the `hosts.keys.KeySpace` of all jobs, of `Any` since this package
    cannot import `hosts`. Runs of processes need it if the switch aggregates; None if it holds no values."""
    overflows: Callable[[K_contra], Awaitable[int]] | None = None
    """(controller): return the number of additions in the switch that overflowed; None if none can."""
    publish: Callable[[K_contra, int], Awaitable[None]] | None = None
    """(controller, job): make pulls return all updates acknowledged so far; None if pulls always do."""
    stop_exchanges: Callable[[K_contra, Arm], Awaitable[None]] | None = None
    """(controller, arm): stop exchanges between servers and switch, so that both can be read consistently;
    None if they exchange nothing by themselves."""
    network_rows: Callable[[Sequence[R], LeafSpine, int], list[R]] | None = None
    """(rows, network, switch): return the rows of a switch of a network from those of a single switch with
    the same hosts; None if they are those of `controller.network_rows`."""
    settle: Callable[[K_contra, int, int], Awaitable[None]] | None = None
    """(controller, job, epoch): have servers apply what workers have replayed; it is called after all of them
    have replayed to the switch whose callers have that epoch. None if servers apply it at once."""


class DesignSettings(Protocol):
    """The settings of a design in an arm: a frozen dataclass that the design defines."""

    @property
    def aggregates(self) -> bool:
        """Whether the switch adds up parameters. Arms with an equal value train the same model."""

    @property
    def proxies(self) -> bool:
        """Whether the switch is the workers' one connection to each server."""


@dataclass(frozen=True, slots=True)
class Aggregating:
    """Base class of the settings of designs whose switch adds up parameters and proxies no connection."""

    aggregates: bool = field(default=True, init=False)
    proxies: bool = field(default=False, init=False)


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The settings of designs whose switch only forwards; there is nothing to set."""

    aggregates: bool = field(default=False, init=False)
    proxies: bool = field(default=False, init=False)


@dataclass(frozen=True, slots=True)
class Arm:
    """One of the configurations in which a run measures the same steps."""

    name: str
    job: int
    design: str
    settings: DesignSettings
    colour: str
    """Colour in figures, readable on white and on black."""
    about: str
    """The rest of the sentence "the arm ...", which defines it."""
    note: str = ""
    """A sentence that helps to interpret the results of the arm; may be empty."""
    reference: str | None = None
    """Name of the baseline that the arm is compared with; None for a baseline."""
    is_measured: bool = True
    is_lead: bool = False
    sentence_prefix: str = ""
    """Beginning of answers' sentences about an arm that does not lead; empty if they do not mention it."""
    is_repetition: bool = False
    """Whether the arm repeats its reference (an A/A test), so that their difference is noise."""

    def settings_as(self, kind: type[S], design: str) -> S:
        """Return the settings as class `kind` of a design; raise `TypeError` for an arm of another design."""
        if not isinstance(self.settings, kind):
            raise TypeError(f"arm {self.name} is of design {self.design}, not {design}")
        return self.settings


class Reduction(str, Enum):
    """One number of the cells of a register."""

    SUM = "sum"
    MAX = "max"
    USED = "used"
    """The number of cells that are not 0."""

    def of(self, cells: Sequence[int]) -> int:
        if self is Reduction.USED:
            return sum(cell != 0 for cell in cells)
        return sum(cells) if self is Reduction.SUM else max(cells)


@dataclass(frozen=True, slots=True)
class ShownRegister:
    name: str
    """Name in the P4Info, such as `HotlineIngress.updates`."""
    reduction: Reduction = Reduction.SUM

    @property
    def title(self) -> str:
        return f"{self.name} ({self.reduction.value})"


@dataclass(frozen=True, slots=True)
class Design:
    """The properties of a design that all packages use.

    Its parts are named as in entry points, `package.module:ATTRIBUTE`, and imported when they are asked for:
    a process that only reads a run's arms needs no compiled agents. Packages may have parts of a design that
    does not name them itself.
    """

    name: str
    summary: str
    """One line about the work of the switch."""
    promise: str
    """One line with the guarantee, for example that no update is lost, and its condition."""
    program: Path
    """BMv2 JSON. If it is given as P4 source, it becomes the JSON to which the source is compiled."""
    arms: tuple[Arm, ...]
    module: str
    """Name of the module that describes the design."""
    control: str
    """Table rows of the switch, and how its state is read: its `ControllerOps` (`controller`)."""
    combination: Combination = Combination.ADD
    """Result of the pushes to a parameter at switch and servers, which runs check."""
    values_register: str | None = None
    """Register whose cell K is parameter K in arms that aggregate, in place of `read_values` and `values`."""
    registers: tuple[ShownRegister, ...] = ()
    """Registers of the program that runs record, and that reports show."""
    agents: str | None = None
    """Compiled workers and servers; None if a package has them (`foundation.designs.registry.part_of`)."""
    preparation: str | None = None
    """Preparation of a run's arms, a coroutine function (`experiment.design_parts`), or None."""
    switch_state: str | None = None
    """Operations on the state that controllers keep in a simulated switch; None if a package has them, or if
    controllers keep no state there."""
    has_services: bool = False
    """Whether workers send to service addresses, which are the switch's, not to the servers' addresses."""
    controlled_as: str | None = None
    """Name of another design whose controller serves this one, too, as the tables are the same."""
    udp_port: int = HOTLINE_PORT
    is_durable: bool = False
    """Whether servers can write a journal, and workers a replay log."""
    has_rows: bool = False
    """Whether its agents and its switch have rows of several values, and of different numbers in one job."""
    optimises: bool = False
    """Whether servers apply optimisers to gradients (`foundation.optimisers`)."""
    has_networks: bool = False
    """Whether its program has rows for each switch of a network of leaves and spines."""
    is_lockstep: bool = False
    """Whether all workers push together and wait for each other, and each holds all parameters. Such a design
    trains the hottest parameters of a workload (`top_k`), as one vector, in a closed loop."""

    def __post_init__(self) -> None:
        if self.program.suffix == SUFFIX:
            object.__setattr__(self, "program", output_of(self.program))
        if self.combination is not Combination.ADD and (
            self.is_durable or self.optimises or self.is_lockstep
        ):
            raise ValueError(
                f"combination {self.combination.value}: expected {Combination.ADD.value} of a design that is "
                "durable, has optimisers or is in lockstep"
            )

    @property
    def has_hot_set(self) -> bool:
        """Whether the switch holds a chosen part of the parameters (`top_k`)."""
        return self.preparation is not None

    @property
    def server_udp_port(self) -> int:
        """UDP port of servers; where the switch has service addresses, these have `udp_port`."""
        return HOTLINE_PORT if self.has_services else self.udp_port

    @property
    def p4info(self) -> Path:
        return self.program.with_suffix(P4INFO_SUFFIX)
