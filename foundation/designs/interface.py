"""What a design of aggregation is. Whoever writes one reads this first.

A design is a P4 program, what its workers and its servers do, what a controller does for it, and the arms in
which it is measured. Each part has a folder of the design's name: `p4src/<design>/`, `hosts/<design>/`,
`controller/<design>`. `<design>.py` beside this file describes it, one line of `registry.py` names it, and
a line of `designs.py` in `hosts` and `controller` says where its part is.

On a host a design is two *halves*. Each is a class of state, a `NamedTuple` of arrays of records, and
compiled functions over it (`halves.py`). The loops, of sockets and of virtual time, call these functions
and know nothing else: which body a call has is chosen by the class of the state, when the loop is compiled
(`foundation.native.generic`).

All times are ns of one monotonic clock. A *peer* is a number: 0.. are the servers, `n_ps`.. the workers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

from typing_extensions import NamedTuple

from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from foundation.protocol.rpc import Rpc
from nativekit.compile import compiled
from nativekit.generic import generics, implement
from nativekit.records import Records

NEVER = 1 << 62
"""Time of an event that is not scheduled, in ns. A duration can be added to it within an int64."""
NOTHING = -1
"""No slot, no row."""
NO_REPLY = 0
"""Length of an answer that is none."""
LOCKSTEP_WORKERS = (2, 32)
"""How many may push together: a bit each."""
COMMAND, FOREIGN = -1, -2
"""Marks instead of a length: a datagram is the controller's, for the design's Python; it is of another
version of the wire."""


@compiled
def no_prefetch(_state: object, _datagram: Rpc) -> None:
    """There is nothing to be fetched."""


@compiled
def no_prefetch_next(_state: object) -> None:
    """There is nothing to be fetched."""


@compiled
def nothing_unreplayed(_state: object) -> int:
    """Nothing that was acknowledged could be lost."""
    return 0


@compiled
def take_nothing(_state: object, _n: int) -> None:
    """There is nothing to be pushed again."""


class WorkerHeader(Protocol):
    """What `header` of every worker's state has."""

    op: int
    pending: int
    """What is to come of the operation; 0 between operations."""
    due: int
    """Time before which `wake` has nothing to do."""
    rows: int
    """Answered RPCs in the log."""
    unreplayed: int
    """Not 0 while something is to be pushed again before anything else."""


class LoggedRow(Protocol):
    """What a row of the log has for loops (`foundation.logs.columns`)."""

    w_proc: int


class WorkerState(Protocol):
    """What every worker's state has."""

    @property
    def header(self) -> WorkerHeader:
        """The record of numbers."""

    @property
    def sent(self) -> Records[Rpc]:
        """Rpc[n]: the datagrams, by slot."""

    @property
    def log(self) -> Records[LoggedRow]:
        """Row[n]: answered RPCs, the first `header.rows`."""


S = TypeVar("S")
"""The class of a design's state, of which loops know a `WorkerState` or a `ServerState`."""


class WorkerOps(NamedTuple, Generic[S]):
    """What a worker's loop calls, of states of class `S`."""

    start: Callable[[S, int, int, int], None]
    """(state, op, iteration, n_keys): begin to pull or push the parameters at the first `n_keys`
    positions."""
    transmit: Callable[[S, int], int]
    """(state, now): the slot whose datagram is to be sent at once, or NOTHING. A burst of datagrams is sent
    together: they must stay as they are until the next begins."""
    octets: Callable[[S, int], int]
    """(state, slot): length of its datagram."""
    peer: Callable[[S, int], int]
    """(state, slot): whom it goes to."""
    wake: Callable[[S, int], None]
    """(state, now): do what is due."""
    deadline: Callable[[S], int]
    """(state): when `wake` is due next, or NEVER."""
    receive: Callable[[S, Rpc, int, int, int], int]
    """(state, datagram, length, arrival, read): take it in; its row of the log, or NOTHING. The loop writes
    the row's `w_proc`."""
    next_unreplayed: Callable[[S], int] = nothing_unreplayed
    """(state): while `header.unreplayed` is not 0, write the next updates to be replayed into the state's
    positions and deltas; returns the number of keys."""
    take_unreplayed: Callable[[S, int], None] = take_nothing
    """(state, n): that part, of n keys, is no longer owed: it is to be pushed now."""
    prefetch_next: Callable[[S], None] = no_prefetch_next
    """(state): have the caches fetch what the next `transmit` will read and write. Like the next two it
    changes nothing, and only makes virtual time fast, where workers take turns."""
    prefetch_index: Callable[[S, Rpc], None] = no_prefetch
    """(state, datagram): have the caches fetch what tells which request a datagram answers, which may be
    anything."""
    prefetch_values: Callable[[S, Rpc], None] = no_prefetch
    """(state, datagram): and, a while later, have them fetch what it answers."""


class ServerHeader(Protocol):
    """Fields that `header` of every server's state has."""

    ps: int
    callers: int
    """Grows when a worker comes for the first time."""
    noted: int
    """Not 0 when something is to be kept before an answer leaves."""
    due: int
    """Time before which `wake` has nothing to do."""


class ServerState(Protocol):
    """What every server's state has."""

    @property
    def header(self) -> ServerHeader:
        """The record of numbers."""


class ServerOps(NamedTuple, Generic[S]):
    """Functions that a server's loop calls on states of class `S`.

    `hosts.ps.reply_only` has `transmit` to `wake` for a server that only answers."""

    handle: Callable[[S, Rpc, int, int, Rpc], int]
    """(state, datagram, length, arrival, answer): write the answer, which goes to the sender. Returns its
    length, NO_REPLY, or a mark: COMMAND or FOREIGN."""
    lanes: Callable[[S, Rpc], int]
    """(state, datagram): parameters that the server looks up for it, which its service time grows with."""
    stamp: Callable[[S, Rpc, int, int], None]
    """(state, answer, ps_proc, ps_queue): write what it took into an answer."""
    charge: Callable[[S, Rpc, int], None]
    """(state, answer, ns): add CPU time to what the answer's job has cost."""
    share_cpu: Callable[[S, int], None]
    """(state, ns): divide a burst's CPU time among the jobs."""
    needs_room: Callable[[S, int], bool]
    """(state, datagrams): whether that many might not find room in logs and tables."""
    transmit: Callable[[S, int], int]
    """(state, now): the slot whose datagram is to be sent at once, or NOTHING: more than one answer, or of
    itself."""
    address: Callable[[S, int], int]
    """(state, slot): where its datagram begins in memory."""
    octets: Callable[[S, int], int]
    """(state, slot): length of its datagram."""
    peer: Callable[[S, int], int]
    """(state, slot): whom it goes to."""
    wake: Callable[[S, int], None]
    """(state, now): do what is due, at `header.due`."""
    prefetch_index: Callable[[S, Rpc], None] = no_prefetch
    """(state, datagram): have the caches fetch what tells where the parameters of a datagram are, which may
    be anything. Like the next it changes nothing, and only makes `handle` fast."""
    prefetch_values: Callable[[S, Rpc], None] = no_prefetch
    """(state, datagram): and, a while later, have them fetch the parameters."""


W = TypeVar("W", bound=WorkerState)
P = TypeVar("P", bound=ServerState)
WORKER_OPS: WorkerOps[WorkerState] = generics(WorkerOps)
SERVER_OPS: ServerOps[ServerState] = generics(ServerOps)
"""What loops call; numba chooses the implementation by the class of the state."""


def register_worker_ops(state: type[W], ops: WorkerOps[W]) -> WorkerOps[W]:
    """Register the functions that drive the workers' states of a class; return them."""
    implement(state, WORKER_OPS, ops)
    return ops


def register_server_ops(state: type[P], ops: ServerOps[P]) -> ServerOps[P]:
    """Register the functions that serve the servers' states of a class; return them."""
    implement(state, SERVER_OPS, ops)
    return ops


class ScapyLayer(Protocol):
    """A module that has Scapy dissect a design's frames."""

    @staticmethod
    def outward(datagram: bytes) -> bytes:
        """Pass a datagram of an agent through Scapy's layer."""

    @staticmethod
    def inward(datagram: bytes) -> bytes:
        """Pass a datagram on its way into an agent through Scapy's layer; what is none becomes nothing."""


class Agents(NamedTuple):
    """What agents, real or simulated, make of a design (`hosts.designs`)."""

    # What these return is of a room above, which this one cannot name.
    client: Callable[..., Any]
    """(caller, n_ps, space, clock, window, *, largest, machine, log): a worker's calls for one job, a
    `hosts.worker.client.BaseClient`; `log` is its `hosts.worker.replay.ReplayLog`, or None."""
    server: Callable[..., Any]
    """(ps, n_ps, space, jobs, journal_bytes): the state of a server that has all of its share, all values
    0."""
    store: Callable[..., Any]
    """(state, job, replayed): the parameters of a job at a server, a `hosts.ps.store.Store`."""
    core: Callable[..., Any]
    """(ps, n_ps, space, epochs, clock, as_plain, *, journal_bytes, replayed, state): a server with what
    Python does for it, a `hosts.ps.core.Core`; `state` is one that there is already, or None."""
    scapy: str
    """Name of the `ScapyLayer`."""

    @property
    def wire(self) -> ScapyLayer:
        """That module: it takes half a second to import."""
        return cast(ScapyLayer, import_module(self.scapy))


class Hosts(NamedTuple):
    """Who is at a switch; numbers are from 1 on."""

    workers: int
    servers: int
    workers_at_a_port: int = 1

    def worker_port(self, number: int) -> int:
        """Port of a worker, which all of its rack share."""
        return addressing.worker_port(number, self.workers_at_a_port)

    def server_port(self, number: int) -> int:
        """Port of a server."""
        return addressing.server_port(self.workers, number, self.workers_at_a_port)


async def _is_never_changed(_controller: object, _arm: Arm) -> bool:
    return False


async def _holds_nothing(_controller: object, _arm: Arm) -> dict[int, int]:
    return {}


async def _never_overflows(_controller: object) -> int:
    return 0


class Control(NamedTuple):
    """What a controller does for a design (`controller.designs`). Where the switch holds no
    parameters between operations, rows are all that there is."""

    # Controllers and rows are of a room above, which this one cannot name.
    rows: Callable[[Hosts, Sequence[Arm], int], list[Any]]
    """(hosts, arms, epoch): what is in the switch's tables from the beginning; callers have that epoch."""
    is_changed: Callable[[Any, Arm], Awaitable[bool]] = _is_never_changed
    """(controller, arm): whether somebody has changed what the arm uses of the switch."""
    held: Callable[[Any, Arm], Awaitable[dict[int, int]]] = _holds_nothing
    """(controller, arm): key -> value of all parameters that the switch holds."""
    overflows: Callable[[Any], Awaitable[int]] = _never_overflows
    """(controller): additions at the switch that overflowed."""


class Settings(Protocol):
    """What an arm sets of its design: a frozen dataclass of the design's own."""

    @property
    def aggregates(self) -> bool:
        """Whether the switch adds up parameters. Arms in which it does train alike, and so do the others."""

    @property
    def proxies(self) -> bool:
        """Whether the switch is the workers' one connection to each server."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """The switch forwards, and does nothing else: there is nothing to be set."""

    @property
    def aggregates(self) -> bool:
        """The switch adds nothing up."""
        return False

    @property
    def proxies(self) -> bool:
        """Each worker has a connection of its own to each server that it asks."""
        return False


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the same steps."""

    name: str
    job: int
    design: str
    settings: Settings
    colour: str
    """In figures, on white and on black."""
    about: str
    """What it is: "the arm ..."."""
    note: str = ""
    """What a reader of its numbers should know, as a sentence."""
    baseline: str | None = None
    """The arm that it is compared with; None for one that others are compared with."""
    is_measured: bool = True
    is_lead: bool = False
    """Whether it is the arm that its design is judged by."""
    sentence_prefix: str = ""
    """How an answer's sentences about another arm begin; an answer does not mention it if this is empty."""
    is_repetition: bool = False
    """Whether it is its baseline again (an A/A test): what it differs by is what noise looks like."""


@dataclass(frozen=True, slots=True)
class Design:
    """What all rooms have to know of a design. Each room has its own part of it: `hosts.designs`,
    `controller.designs`, `experiment.designs` and `simulator.contents` know where."""

    name: str
    summary: str
    """In a line: what the switch does."""
    promise: str
    """In a line: what is never lost, and when."""
    program: Path
    """p4c's BMv2 JSON."""
    arms: tuple[Arm, ...]
    """In the order of tables."""
    module: str
    """Name of the module that describes it."""
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Room -> module with the design's part there, for rooms that do not know the design by its name
    (`foundation.designs.registry.Parts`): a design outside this repository names its modules here."""
    has_services: bool = False
    """Workers send to service addresses, which are the switch's, and not to servers' own."""
    udp_port: int = HOTLINE_PORT
    """That they send to."""
    is_durable: bool = False
    """Servers can keep a journal, and workers a replay log."""
    is_lockstep: bool = False
    """All workers push together and wait for each other, and each of them holds all parameters. The hottest
    ones of a workload are trained (`top_k`), as one vector, in a closed loop."""

    @property
    def p4info(self) -> Path:
        """Its P4Info, beside the program."""
        return self.program.with_suffix(".p4info.txtpb")
