"""The Python client of a worker's calls for one job, which designs extend; its state machine is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.errors import HotlineError
from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import MAX_U32, Caller, Keys, Values
from foundation.protocol.header import WINDOW
from foundation.protocol.leaf_spine import ServerHomes
from foundation.protocol.rpc import BUFFER_BYTES, EMPTY, PULL, PUSH, rpcs
from hosts.in_flight import InFlight
from hosts.keys import KeySpace
from hosts.replay import ReplayLog
from hotline_agents.interface import NEVER, NOTHING, WorkerHeader, WorkerState
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, pinned
from hotline_agents.worker.rpcs import RpcsHeader
from hotline_agents.worker.window import OperandState
from nativekit.records import Records, records, with_arrays
from nativekit.reference import unwrap_ref

NO_ITERATION = 0  # iteration of an operation that is not part of a step


class ClientHeader(WorkerHeader, Protocol):
    job: int
    worker: int
    epoch: int
    n_issued: int  # number of RPCs so far
    issue_limit: int  # value of `n_issued` from which on no operation may begin
    n_keys: int
    n_calls: int  # number of RPCs of the operation so far
    retransmissions: int
    malformed: int
    unexpected: int


class NumbersUsedUp(HotlineError):
    """A caller has used the sequence numbers of its epoch."""


class ClientState(WorkerState, OperandState, Protocol):
    @property
    def header(self) -> ClientHeader: ...

    @property
    def log(self) -> Records[RpcRow]: ...


class BaseClient:
    """One worker's calls for one job; `clock` (monotonic, ns) is read only if Python sends the datagrams."""

    state: ClientState
    _header: ClientHeader

    def __init__(
        self,
        state: ClientState,
        clock: Callable[[], int],
        ops: AnyWorkerOps = COMPILED,
        log: ReplayLog | None = None,
    ) -> None:
        self.log = log
        self._clock = clock
        self._ops = ops
        self._n_pulled = 0
        self.further_values = 0
        """Number of values of the last pull's or push's rows, without the first one of each row."""
        self._reference: Any = None  # of any class of state
        self._inbox: Any = rpcs(1)  # operations take the first datagram of an array
        self._inbox_bytes = self._inbox.view(np.uint8).data
        self.adopt(state)

    def adopt(self, state: ClientState) -> None:
        """Replace the state by other arrays with the same content."""
        self.state = state
        self._header = state.header
        self._sent_bytes = state.sent.view(np.uint8).data

    def map_requests(self, requests: InFlight) -> None:
        """Keep the requests without an answer in a file; only clients whose state has `in_flight` can."""
        self.adopt(with_arrays(self.state, sent=requests.datagrams, in_flight=requests.lengths))

    @property
    def reference(self) -> ClientState:
        """A reference to the current state, for entry points."""
        if unwrap_ref(self._reference) is not self.state:
            self._reference = pinned(self.state)
        reference: ClientState = self._reference
        return reference

    @property
    def idle(self) -> bool:
        return not self._header.pending

    @property
    def values(self) -> Values:
        """Rows of the last pull in the order of its keys; the next pull overwrites them."""
        values: Values = self.state.values[: self._n_pulled]
        return values

    def _count_values(self, positions: NDArray[np.integer]) -> int:
        """Return the number of values of these rows; designs without rows have one each."""
        return len(positions)

    @property
    def rpcs_of_operation(self) -> int:
        """Number of RPCs of the current or last operation, including new ones for refused keys."""
        return int(self._header.n_calls)

    @property
    def malformed(self) -> int:
        return int(self._header.malformed)

    @property
    def unexpected(self) -> int:
        """Number of well-formed datagrams that answer no outstanding request."""
        return int(self._header.unexpected)

    @property
    def counters(self) -> dict[str, int]:
        names = ("retransmissions", "malformed", "unexpected")
        return {name: int(getattr(self._header, name)) for name in names}

    @property
    def records(self) -> Records[RpcRow]:
        """Log rows of the RPCs answered since the last `take_records`."""
        return self.state.log[: self._header.rows]

    def take_records(self, new_log: Records[RpcRow] | None = None) -> Records[RpcRow]:
        """Return the log rows, and continue the log in `new_log`, or in a new array of equal size."""
        answered_rows = self.records
        if new_log is None:
            new_log = records(len(self.state.log), RpcRow)
        self.state = with_arrays(self.state, log=new_log)
        self._header.rows = 0
        return answered_rows

    def prepare(self, push_number: int, word_flags: int = 0) -> None:
        """Set the next push's number among the pushes to its table, from 0, for the servers' optimisers.

        `word_flags` are the header's flags `SET` and `STATE`, if the next operation sets words or pulls
        words of optimiser state. Only clients of designs that optimise use these arguments.
        """
        if word_flags:
            raise ValueError(
                f"word_flags: expected 0 for a design whose servers have no optimisers, got {word_flags}"
            )

    def pull(self, iteration: int, positions: NDArray[np.integer]) -> None:
        """Start to pull these distinct rows [size]; the client must be idle."""
        self._n_pulled = self._count_values(positions)
        self.further_values = self._n_pulled - len(positions)
        self._start(PULL, iteration, positions)

    def push(
        self,
        iteration: int,
        positions: NDArray[np.integer],
        deltas: Values,
        answered: NDArray[np.bool_],
    ) -> None:
        """Start to add `deltas`, the values of these distinct rows [size], on an idle client.

        Acknowledged rows are marked in `answered` [>= size].
        """
        self.state = with_arrays(self.state, answered=answered)
        self.further_values = len(deltas) - len(positions)
        self.state.deltas[: len(deltas)] = deltas
        self._start(PUSH, iteration, positions)

    def set_worker_count(self, workers: int) -> None:
        """Set the number of workers of the job; most designs ignore it."""

    def set_homes(self, homes: ServerHomes) -> None:
        """Share out the window of an idle client among homes, the switches with hot sets.

        Designs without hot sets ignore it.
        """

    def set_home_index(self, index: int) -> None:
        """Set which of the homes of each server an idle client uses, if servers have several.

        Designs without hot sets ignore it.
        """

    def limit_lanes(self, lanes: int, hot_lanes: int | None = None) -> None:
        """Set the number of lanes of an RPC, a power of two up to `LANES`; most designs ignore it.

        In the first `hot_lanes` of them, by default all, the switch serves keys.
        """

    @property
    def model(self) -> Values | None:
        """All parameters [size] by position in the key space, if workers hold them; None in most designs."""
        return None

    def start_empty_rpc(self, ps: int) -> None:
        """Start an empty RPC to a PS (Pan et al. Fig. 9); the client must be idle."""
        self._check_numbers()
        self._ops.start(self.reference, EMPTY, NO_ITERATION, ps)

    def hint(self, keys: Keys | None, upper: int = 0) -> None:
        """Replace the hints by these keys, which switches hold, or clear them; most designs do nothing.

        The first `upper` of the keys are at the homes of level 1.
        """

    def renew(self, epoch: int, home: int = 0) -> None:
        """Continue with another epoch after a restart of a home's switch; most designs ignore it."""

    @property
    def has_unreplayed(self) -> bool:
        """Whether updates must be replayed before any other operation."""
        return bool(self._header.unreplayed)

    def replay(self) -> None:
        """Start to push the next unreplayed updates, if there are any; the client must be idle."""
        self._check_numbers()
        # This sets the first n positions and deltas of the state.
        n = self._ops.next_unreplayed(self.reference)
        if n:
            assert self.log is not None
            # In this order, a crash at any point leaves each update either to replay or known as unanswered.
            positions = self.state.positions[:n]
            answered = self.log.note(positions, self.state.deltas[: self._count_values(positions)])
            self._ops.take_unreplayed(self.reference, n)
            self.log.mark_taken()
            self.state = with_arrays(self.state, answered=answered)
            self._ops.start(self.reference, PUSH, NO_ITERATION, n)

    def transmit(self) -> tuple[memoryview, int] | None:
        """Return the next datagram to send, and its peer; None if there is none."""
        slot = self._ops.transmit(self.reference, self._clock())
        if slot == NOTHING:
            return None
        start = slot * BUFFER_BYTES
        datagram = self._sent_bytes[start : start + self._ops.octets(self.reference, slot)]
        return datagram, self._ops.peer(self.reference, slot)

    def receive(self, datagram: bytes | memoryview, arrival: int, read: int) -> None:
        """Handle a datagram that the kernel received at `arrival` and that was read at `read` (ns)."""
        self._make_room()
        length = min(len(datagram), BUFFER_BYTES)
        self._inbox_bytes[:length] = datagram[:length]
        row = self._ops.receive(self.reference, self._inbox, length, arrival, read)
        if row != NOTHING:
            self.state.log[row].w_proc = self._clock() - read  # processing time at the worker, ns

    def deadline(self) -> int | None:
        """Return when `wake` is due next, in ns, or None."""
        due = self._ops.deadline(self.reference)
        return None if due == NEVER else due

    def wake(self, now: int) -> None:
        if now >= self._header.due:
            self._ops.wake(self.reference, now)

    def _start(self, op: int, iteration: int, positions: NDArray[np.integer]) -> None:
        size, max_keys = len(positions), len(self.state.positions)
        if size > max_keys:
            raise ValueError(f"expected an operation on at most {max_keys} rows, got {size}")
        self._check_numbers()
        self.state.positions[:size] = positions
        self._ops.start(self.reference, op, iteration, size)

    def _check_numbers(self) -> None:
        header = self._header
        if header.n_issued >= header.issue_limit:
            raise NumbersUsedUp(
                f"worker {header.worker} of job {header.job}: epoch {header.epoch} has no sequence numbers "
                f"of 32 bits left after {header.n_issued:,} RPCs: end this run or session, and start another"
            )

    def _make_room(self) -> None:
        log = self.state.log
        if self._header.rows == len(log):
            larger_log = records(2 * len(log) + 1, RpcRow)  # + 1: the log may have no rows
            larger_log[: len(log)] = log
            self.state = with_arrays(self.state, log=larger_log)


class NumberedPushes(BaseClient):
    """A client that sends the number of a push to its table, for the servers' optimisers."""

    _header: RpcsHeader
    _push_number = 0  # number of the next push, which `prepare` sets for its table

    def prepare(self, push_number: int, word_flags: int = 0) -> None:
        self._push_number, self._header.word_flags = min(push_number, MAX_U32), word_flags

    def push(
        self, iteration: int, positions: NDArray[np.integer], deltas: Values, answered: NDArray[np.bool_]
    ) -> None:
        self._header.push_number = self._push_number
        self._push_number = min(self._push_number + 1, MAX_U32)  # optimisers treat all later pushes alike
        super().push(iteration, positions, deltas, answered)


class DesignClient(BaseClient):
    """A client of designs without a replay log, whose state depends on `make_state`'s arguments only."""

    @staticmethod
    def make_state(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> ClientState:
        raise NotImplementedError

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        max_keys: int | None = None, ops: AnyWorkerOps = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        self._space = space
        limit = space.size if max_keys is None else max_keys
        super().__init__(self.make_state(caller, n_ps, space, limit, window), clock, ops, log)
