"""The interface of a design's compiled agents: what their loops call, and how they are made.

On a host, a design is a class of state for workers and one for servers, each a `NamedTuple` of arrays of
records, and compiled functions over it: `WorkerOps` and `ServerOps`. The loops over sockets and over
simulated time call these functions and know nothing else of a design. The class of the state selects the
implementation of a call when the loop is compiled (`nativekit.generic`).

All times are ns of one monotonic clock. A *peer* is a number: 0.. are the servers, `n_ps`.. the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from typing_extensions import NamedTuple

from foundation.protocol.rpc import Rpc
from nativekit.compile import compiled
from nativekit.generic import generics, implement
from nativekit.records import Records

NEVER = 1 << 62  # ns: later than any time, and with a duration added still below 2^63
NOTHING = -1
"""Returned instead of a slot or of a row of the log."""
NO_REPLY = 0
"""Returned instead of an answer's length if there is no answer."""
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
    """(caller, n_ps, space, clock, window, *, max_keys, ops, log): return a worker's client for one job,
    a `hotline_agents.worker.client.BaseClient`; `log` is its `hosts.replay.ReplayLog`, or None."""
    server: Callable[..., Server_co]
    """(ps, n_ps, space, jobs, journal_bytes, tables): return the state of a server that holds its whole
    share, all values 0; `tables` are its `TableOptimiser`s, none unless the design `optimises`."""
    store: Callable[..., Store_co]
    """(state, job, has_replay_logs): return the parameters of a job at a server, a
    `hotline_agents.ps.store.Store`."""
    core: Callable[..., Core_co]
    """(ps, n_ps, space, epochs, clock, as_plain, *, journal_bytes, has_replay_logs, state, tables): return
    a server with its Python part (`hotline_agents.ps.server_core`); `state` is an existing state, or None."""
    warm_server: Callable[[Any], None] = _skip
    """(state of a server): compile what its Python part calls (`hotline_agents.warm`)."""
    configure: Callable[[Any, Any], None] = _skip
    """(state of a server, `hosts.agent_config.RunSettings`): apply the settings of the design's servers."""
