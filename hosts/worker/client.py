"""A worker's calls for one job, as Python sees them: it begins operations, and may drive their datagrams too.

Designs add what only theirs have. The state machine behind it is compiled; its plain twin leaves the same
bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NEVER, NOTHING, WorkerHeader, WorkerState
from foundation.logs.columns import Row
from foundation.protocol.codec import Caller, Keys, Values
from foundation.protocol.header import WINDOW
from foundation.protocol.rpc import BUFFER_BYTES, EMPTY, PULL, PUSH, rpcs
from hosts.keys import KeySpace
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog
from nativekit.records import Ints, Records, Words, records, with_arrays


class ClientHeader(WorkerHeader, Protocol):
    """What `header` of a client's state has besides what loops ask for."""

    n_keys: int
    calls: int
    """RPCs of the operation so far."""
    retransmissions: int
    malformed: int
    unexpected: int


class ClientState(WorkerState, Protocol):
    """What a client's state has besides what loops ask for; B is the largest size of an operation."""

    @property
    def header(self) -> ClientHeader:
        """The record of numbers."""

    @property
    def log(self) -> Records[Row]:
        """Row[n]: answered RPCs, the first `header.rows`."""

    @property
    def positions(self) -> Ints:
        """int64[B]: positions of an operation's keys in the key space."""

    @property
    def deltas(self) -> Words:
        """uint32[B]: what a push adds."""

    @property
    def values(self) -> Words:
        """uint32[B]: what a pull brings."""

    @property
    def answered(self) -> NDArray[np.bool_]:
        """bool[>= B]: which deltas are known to be applied; the caller's array replaces it."""


class BaseClient:
    """One worker's calls for one job. `clock` is monotonic, ns: it is for those who drive it by hand.

    Who unreplayed something has a replay log."""

    state: ClientState
    _header: ClientHeader

    def __init__(
        self,
        state: ClientState,
        clock: Callable[[], int],
        machine: Machine = COMPILED,
        log: ReplayLog | None = None,
    ) -> None:
        self.log = log
        self._clock = clock
        self._machine = machine
        self._pulled = 0
        self._inbox: Any = rpcs(1)  # machines take the first datagram of an array
        self._inbox_bytes = self._inbox.view(np.uint8).data
        self.adopt(state)

    def adopt(self, state: ClientState) -> None:
        """Go on in these arrays, which have what the client's own had."""
        self.state = state
        self._header = state.header
        self._sent_bytes = state.sent.view(np.uint8).data

    @property
    def idle(self) -> bool:
        """No operation is running."""
        return not self._header.pending

    @property
    def values(self) -> Values:
        """What the last pull brought, in the order of its keys; the next one writes over it."""
        values: Values = self.state.values[: self._pulled]
        return values

    @property
    def rpcs_of_operation(self) -> int:
        """RPCs of the running or last operation, those that were sent anew for some of its keys included."""
        return int(self._header.calls)

    @property
    def malformed(self) -> int:
        """Datagrams that were no RPCs."""
        return int(self._header.malformed)

    @property
    def unexpected(self) -> int:
        """Well-formed datagrams that answer nothing: late duplicates, or not ours."""
        return int(self._header.unexpected)

    @property
    def counters(self) -> dict[str, int]:
        """The counts above, and of requests that were sent again."""
        return {
            name: int(getattr(self._header, name)) for name in ("retransmissions", "malformed", "unexpected")
        }

    @property
    def records(self) -> Records[Row]:
        """The answered RPCs so far; see `take_records`."""
        return self.state.log[: self._header.rows]

    def take_records(self, fresh: Records[Row] | None = None) -> Records[Row]:
        """The answered RPCs so far; the client goes on in `fresh`."""
        taken = self.records
        if fresh is None:
            fresh = records(len(self.state.log), Row)
        self.state = with_arrays(self.state, log=fresh)
        self._header.rows = 0
        return taken

    def pull(self, iteration: int, positions: NDArray[np.integer]) -> None:
        """Start to fetch the values of these distinct parameters [size]; the client must be idle."""
        self._pulled = len(positions)
        self._start(PULL, iteration, positions)

    def push(
        self,
        iteration: int,
        positions: NDArray[np.integer],
        deltas: Values,
        answered: NDArray[np.bool_],
    ) -> None:
        """Start to add `deltas` [size]; the client must be idle.

        `answered` [size or more] gets True where a delta is known to be applied.
        """
        self.state = with_arrays(self.state, answered=answered)
        self.state.deltas[: len(positions)] = deltas
        self._start(PUSH, iteration, positions)

    def join(self, workers: int) -> None:
        """So many workers are in the job; most designs need not know."""

    @property
    def model(self) -> Values | None:
        """All parameters [size], by position in the key space, where workers hold them; None in most
        designs."""
        return None

    def empty(self, ps: int) -> None:
        """Start an RPC that asks a PS for nothing ([DDL] Fig. 9); the client must be idle."""
        self._machine.start(self.state, EMPTY, 0, ps)

    def hint(self, keys: Keys | None) -> None:
        """Forget what the switch was taken to have; it has these keys now. It has none in most designs."""

    def renew(self, epoch: int) -> None:
        """The switch is another one, with none of what the last one held. In most designs it held nothing."""

    @property
    def has_unreplayed(self) -> bool:
        """Something is to be pushed again before anything else: `replay`."""
        return bool(self._header.unreplayed)

    def replay(self) -> None:
        """Start to push the next part of what is owed; the client must be idle, and may stay so."""
        n = self._machine.next_unreplayed(self.state)
        if n:
            assert self.log is not None
            answered = self.log.note(self.state.positions[:n], self.state.deltas[:n])
            self._machine.take_unreplayed(self.state, n)
            self.log.mark_taken()
            self.state = with_arrays(self.state, answered=answered)
            self._machine.start(self.state, PUSH, 0, n)

    def transmit(self) -> tuple[memoryview, int] | None:
        """The next datagram to be sent at once, and the peer that it goes to."""
        slot = self._machine.transmit(self.state, self._clock())
        if slot == NOTHING:
            return None
        start = slot * BUFFER_BYTES
        datagram = self._sent_bytes[start : start + self._machine.octets(self.state, slot)]
        return datagram, self._machine.peer(self.state, slot)

    def receive(self, datagram: bytes | memoryview, arrival: int, read: int) -> None:
        """A datagram that the kernel received at `arrival` and that was read at `read`."""
        self._make_room()
        length = min(len(datagram), BUFFER_BYTES)
        self._inbox_bytes[:length] = datagram[:length]
        row = self._machine.receive(self.state, self._inbox, length, arrival, read)
        if row != NOTHING:
            self.state.log[row].w_proc = self._clock() - read

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        due = self._machine.deadline(self.state)
        return None if due == NEVER else due

    def wake(self, now: int) -> None:
        """Do what is due: what is overdue is sent again."""
        if now >= self._header.due:
            self._machine.wake(self.state, now)

    def _start(self, op: int, iteration: int, positions: NDArray[np.integer]) -> None:
        size, largest = len(positions), len(self.state.positions)
        if size > largest:
            raise ValueError(f"an operation on {size} parameters; this client takes {largest}")
        self.state.positions[:size] = positions
        self._machine.start(self.state, op, iteration, size)

    def _make_room(self) -> None:
        log = self.state.log
        if self._header.rows == len(log):
            larger = records(2 * len(log) + 1, Row)
            larger[: len(log)] = log
            self.state = with_arrays(self.state, log=larger)


class DesignClient(BaseClient):
    """A client for designs whose state follows from the arguments alone; a replay log has nothing to keep."""

    @staticmethod
    def make_state(caller: Caller, n_ps: int, space: KeySpace, largest: int, window: int) -> ClientState:
        """Return the state of an idle worker, for operations on at most `largest` keys."""
        raise NotImplementedError

    def __init__(
        self, caller: Caller, n_ps: int, space: KeySpace, clock: Callable[[], int], window: int = WINDOW, *,
        largest: int | None = None, machine: Machine = COMPILED, log: ReplayLog | None = None,
    ) -> None:  # fmt: skip
        self._space = space
        most = space.size if largest is None else largest
        super().__init__(self.make_state(caller, n_ps, space, most, window), clock, machine, log)
