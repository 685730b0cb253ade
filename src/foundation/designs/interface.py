"""The interface of a design of aggregation: read this before you write a design.

A design is a P4 program, the code of its workers and servers, the code of its controller, and the arms in
which it is measured. A `Design` describes it and names its parts. An entry point of the group
`hotline.designs` names the `Design`, in the `pyproject.toml` of the distribution that has it.

On a host, a design is a class of state for workers and one for servers, each a `NamedTuple` of arrays of
records, and compiled functions over it: `WorkerOps` and `ServerOps`. The loops over sockets and over
simulated time call these functions and know nothing else of a design. The class of the state selects the
implementation of a call when the loop is compiled (`nativekit.generic`).

All times are ns of one monotonic clock. A *peer* is a number: 0.. are the servers, `n_ps`.. the workers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import NamedTuple

from foundation.designs.sources import P4INFO_SUFFIX, SUFFIX, output_of
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from foundation.protocol.rpc import Rpc
from nativekit.compile import compiled
from nativekit.generic import generics, implement
from nativekit.records import Records

NEVER = 1 << 62  # ns: later than any time, and with a duration added still below 2^63
NOTHING = -1
"""Returned instead of a slot or of a row of the log."""
NO_REPLY = 0
"""Returned instead of an answer's length if there is no answer."""
LOCKSTEP_WORKERS = (2, 32)
"""Minimum and maximum number of workers that push together: a bitmap of 32 bits has one bit for each."""
COMMAND, FOREIGN = -1, -2
"""Returned instead of a length: COMMAND for a controller message, which the design's Python handles, FOREIGN
for another version of the wire format."""


@compiled
def do_nothing(_state: object, _argument: object) -> None:
    """Do nothing, as the default of `take_unreplayed`, `wake`, `prefetch_index` and `prefetch_values`."""


@compiled
def no_prefetch_next(_state: object) -> None:
    """Do nothing, as the default of `prefetch_next`."""


@compiled
def count_no_unreplayed(_state: object) -> int:
    """Return 0: this design has no acknowledged updates that could be lost."""
    return 0


@compiled
def transmit_nothing(_state: object, _now: int) -> int:
    """Return NOTHING, as the default of a server's `transmit`: it only answers."""
    return NOTHING


@compiled
def return_zero(_state: object, _slot: int) -> int:
    """Return 0; `address`, `octets` and `peer` are called only for slots that `transmit` returned."""
    return 0


class WorkerHeader(Protocol):
    op: int
    pending: int
    """Remaining RPCs or chunks of the operation; 0 between operations."""
    due: int
    """Time before which `wake` has nothing to do."""
    rows: int
    """Number of answered RPCs in the log."""
    unreplayed: int
    """Not 0 while updates must be replayed before any other operation."""


class LoggedRow(Protocol):
    """Fields of a row of the log that loops write (`foundation.logs.columns`)."""

    w_proc: int


class WorkerState(Protocol):
    @property
    def header(self) -> WorkerHeader:
        """The record of scalars."""

    @property
    def sent(self) -> Records[Rpc]:
        """Rpc[n]: the datagrams, by slot."""

    @property
    def log(self) -> Records[LoggedRow]:
        """Row[n]: answered RPCs, the first `header.rows`."""


S = TypeVar("S")


class WorkerOps(NamedTuple, Generic[S]):
    """Functions that a worker's loop calls on states of class `S`."""

    start: Callable[[S, int, int, int], None]
    """(state, op, iteration, n_keys): begin to pull or push the parameters at the first n_keys positions."""
    transmit: Callable[[S, int], int]
    """(state, now): return the slot whose datagram must be sent next, or NOTHING. Datagrams are sent in
    bursts: they must not change before the next burst begins."""
    octets: Callable[[S, int], int]
    """(state, slot): return the length of its datagram in bytes."""
    peer: Callable[[S, int], int]
    """(state, slot): return the peer that its datagram goes to."""
    wake: Callable[[S, int], None]
    """(state, now): handle the timeouts that are due."""
    deadline: Callable[[S], int]
    """(state): return the time at which `wake` is due next, or NEVER."""
    receive: Callable[[S, Rpc, int, int, int], int]
    """(state, datagram, length, time of arrival, time of reading): handle a datagram, and return its row of
    the log, or NOTHING. The loop writes the row's `w_proc`."""
    next_unreplayed: Callable[[S], int] = count_no_unreplayed
    """(state): while `header.unreplayed` is not 0, write the next updates to be replayed into the state's
    positions and deltas, and return the number of keys."""
    take_unreplayed: Callable[[S, int], None] = do_nothing
    """(state, n_keys): remove the updates that `next_unreplayed` wrote, as a push of them is under way."""
    prefetch_next: Callable[[S], None] = no_prefetch_next
    """(state): prefetch the memory that the next `transmit` will use. This function and the next two
    change nothing but the time that a simulation of many workers takes."""
    prefetch_index: Callable[[S, Rpc], None] = do_nothing
    """(state, datagram): prefetch the index entry of the request that a datagram answers. The datagram may
    hold anything."""
    prefetch_values: Callable[[S, Rpc], None] = do_nothing
    """(state, datagram): prefetch the request that a datagram answers, some time after `prefetch_index`."""


class ServerHeader(Protocol):
    ps: int
    n_callers: int
    """Number of known callers; it grows with the first RPC of each."""
    journal_length: int
    """Bytes of journal entries that must be written before an answer leaves; 0 if there are none."""
    due: int
    """Time before which `wake` has nothing to do."""


class ServerState(Protocol):
    @property
    def header(self) -> ServerHeader:
        """The record of scalars."""


class ServerOps(NamedTuple, Generic[S]):
    """Functions that a server's loop calls on states of class `S`; by default it only answers."""

    handle: Callable[[S, Rpc, int, int, Rpc], int]
    """(state, datagram, length, arrival, answer): write the answer, which goes to the sender, and return its
    length, NO_REPLY, COMMAND or FOREIGN."""
    lanes: Callable[[S, Rpc], int]
    """(state, datagram): return the number of parameters that the server looks up for a datagram; its service
    time grows with that number."""
    stamp: Callable[[S, Rpc, int, int], None]
    """(state, answer, ps_proc, ps_queue): write the times of processing and queueing into an answer."""
    charge: Callable[[S, Rpc, int], None]
    """(state, answer, ns): add CPU time to the costs of the answer's job."""
    share_cpu: Callable[[S, int], None]
    """(state, ns): divide a burst's CPU time among the jobs."""
    needs_room: Callable[[S, int], bool]
    """(state, datagrams): return whether that many datagrams might not fit into logs and tables."""
    transmit: Callable[[S, int], int] = transmit_nothing
    """(state, now): return the slot whose datagram must be sent next, or NOTHING. It serves designs that send
    several answers, or datagrams that answer nothing."""
    address: Callable[[S, int], int] = return_zero
    """(state, slot): return the memory address of its datagram."""
    octets: Callable[[S, int], int] = return_zero
    """(state, slot): return the length of its datagram in bytes."""
    peer: Callable[[S, int], int] = return_zero
    """(state, slot): return the peer that its datagram goes to."""
    wake: Callable[[S, int], None] = do_nothing
    """(state, now): handle the timeouts that are due; called at `header.due`, NEVER if there are none."""
    prefetch_index: Callable[[S, Rpc], None] = do_nothing
    """(state, datagram): prefetch the index entries of a datagram's parameters. The datagram may hold
    anything. This function and the next change nothing but the time that `handle` takes."""
    prefetch_values: Callable[[S, Rpc], None] = do_nothing
    """(state, datagram): prefetch the parameters, some time after `prefetch_index`."""


W = TypeVar("W", bound=WorkerState)
P = TypeVar("P", bound=ServerState)
WORKER_OPS: WorkerOps[WorkerState] = generics(WorkerOps)
SERVER_OPS: ServerOps[ServerState] = generics(ServerOps)
"""The functions that loops call; numba selects the implementation by the class of the state."""


def register_worker_ops(state: type[W], ops: WorkerOps[W]) -> WorkerOps[W]:
    implement(state, WORKER_OPS, ops)
    return ops


def register_server_ops(state: type[P], ops: ServerOps[P]) -> ServerOps[P]:
    implement(state, SERVER_OPS, ops)
    return ops


Client_co = TypeVar("Client_co", covariant=True)
Server_co = TypeVar("Server_co", covariant=True)
Store_co = TypeVar("Store_co", covariant=True)
Core_co = TypeVar("Core_co", covariant=True)


def _skip(*_arguments: object) -> None:
    """Do nothing, as the default of `warm_server` and `configure`."""


class Agents(NamedTuple, Generic[Client_co, Server_co, Store_co, Core_co]):
    """Constructors of a design's agents; `space` is the `hosts.keys.KeySpace` of a job."""

    client: Callable[..., Client_co]
    """(caller, n_ps, space, clock, window, *, max_keys, machine, log): return a worker's client for one job,
    a `hotline_agents.worker.client.BaseClient`; `log` is its `hosts.replay.ReplayLog`, or None."""
    server: Callable[..., Server_co]
    """(ps, n_ps, space, jobs, journal_bytes, tables): return the state of a server that holds its whole
    share, all values 0; `tables` are its `TableOptimiser`s, none unless the design `optimises`."""
    store: Callable[..., Store_co]
    """(state, job, has_replay_logs): return the parameters of a job at a server, a
    `hotline_agents.ps.store.Store`."""
    core: Callable[..., Core_co]
    """(ps, n_ps, space, epochs, clock, as_plain, *, journal_bytes, has_replay_logs, state, tables): return
    a server with its Python part, a `hotline_agents.ps.core.Core`; `state` is an existing state, or None."""
    warm_server: Callable[[Any], None] = _skip
    """(state of a server): compile what its Python part calls (`hotline_agents.warm`)."""
    configure: Callable[[Any, Any], None] = _skip
    """(state of a server, `hosts.config.RunSettings`): apply the settings of the design's servers."""


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
    """A design's controller functions (`controller.designs`); an operation that a design lacks is None."""

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


@dataclass(frozen=True, slots=True)
class Design:
    """The properties of a design that all packages use.

    Its parts are named as in entry points, `package.module:ATTRIBUTE`, and imported when they are asked for:
    a process that only reads a run's arms needs no compiled agents.
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
    agents: str
    """Workers and servers: an `Agents` (`hotline_agents.designs`)."""
    control: str
    """Table rows of the switch, and how its state is read: a `ControllerOps` (`controller.designs`)."""
    preparation: str | None = None
    """Preparation of a run's arms, a coroutine function (`experiment.designs`); None if there is none."""
    switch_state: str | None = None
    """Operations on a simulated switch's state, a `SwitchStateOps` (`simulator.switch_state`); None if
    controllers keep no state in the switch."""
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
    is_lockstep: bool = False
    """Whether all workers push together and wait for each other, and each holds all parameters. Such a design
    trains the hottest parameters of a workload (`top_k`), as one vector, in a closed loop."""

    def __post_init__(self) -> None:
        if self.program.suffix == SUFFIX:
            object.__setattr__(self, "program", output_of(self.program))

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules that describe the design and hold its parts."""
        parts = (self.agents, self.control, self.preparation, self.switch_state)
        return (self.module, *(part.partition(":")[0] for part in parts if part is not None))

    @property
    def server_udp_port(self) -> int:
        """UDP port of servers; where the switch has service addresses, these have `udp_port`."""
        return HOTLINE_PORT if self.has_services else self.udp_port

    @property
    def p4info(self) -> Path:
        return self.program.with_suffix(P4INFO_SUFFIX)
