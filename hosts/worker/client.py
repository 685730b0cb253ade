"""A worker's calls for one job, as Python sees them: it begins operations, and may drive their datagrams too.

The state machine is compiled: `state`, `requests` and `answers` beside. Its plain twin leaves the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hosts.keys import KeySpace
from hosts.worker.machine import COMPILED, Machine
from hosts.worker.replay import ReplayLog
from hosts.worker.state import NEVER, NOTHING, OWED, ROW, make_calls
from native.records import records
from protocol.codec import Caller, Keys, Values
from protocol.header import WINDOW
from protocol.rpc import BUFFER_BYTES, PULL, PUSH, rpcs


class Client:
    """One worker's calls for one job. `clock` is monotonic, ns: it is for those who drive it by hand.

    Operations have up to `largest` keys; left out: all of the space. With `registers` the caller is a PS
    that reads and writes the switch's registers: all keys travel in their hash lanes, `served` tells what
    became of each, no lane is sent again for a refusal, and nothing is logged or learnt. `log` is the replay
    log; left out: none is kept.
    """

    def __init__(
        self,
        caller: Caller,
        n_ps: int,
        space: KeySpace,
        clock: Callable[[], int],
        window: int = WINDOW,
        *,
        largest: int | None = None,
        machine: Machine = COMPILED,
        registers: bool = False,
        log: ReplayLog | None = None,
    ) -> None:
        self.log = log
        kept = None if log is None else log.kept
        self._space = space
        self._clock = clock
        self._machine = machine
        self._largest = space.size if largest is None else largest
        self._pulled = 0
        self._inbox = rpcs(1)
        self._inbox_bytes = memoryview(self._inbox.view(np.uint8))
        self.state = make_calls(
            *caller,
            n_ps=n_ps,
            parameters=space.size,
            sparse=space.sparse,
            largest=self._largest,
            window=window,
            registers=registers,
            kept=kept,
        )
        self._me = self.state.me
        self._me["owes"] = kept is not None and bool(kept[OWED].any())
        self._sent_bytes = memoryview(self.state.sent.view(np.uint8))

    @property
    def idle(self) -> bool:
        """No operation is running."""
        return not self._me["pending"]

    @property
    def values(self) -> Values:
        """What the last pull brought, in the order of its keys; the next one writes over it."""
        values: Values = self.state.values[: self._pulled]
        return values

    @property
    def served(self) -> NDArray[np.bool_]:
        """Which keys of the last operation the switch served; the next one writes over it."""
        served: NDArray[np.bool_] = self.state.served[: self._me["n_keys"]]
        return served

    @property
    def hinted(self) -> NDArray[np.bool_]:
        """By position in the key space [size]: goes to its hash lane."""
        return np.unpackbits(self.state.hinted, count=self._space.size, bitorder="little").view(np.bool_)

    @property
    def rpcs_of_operation(self) -> int:
        """RPCs of the running or last operation, those for refused lanes included."""
        return int(self._me["calls"])

    @property
    def malformed(self) -> int:
        """Datagrams that were no RPCs."""
        return int(self._me["malformed"])

    @property
    def unexpected(self) -> int:
        """Well-formed datagrams that answer nothing: late duplicates, or not ours."""
        return int(self._me["unexpected"])

    @property
    def counters(self) -> dict[str, int]:
        """The counts above, and of requests that were sent again."""
        return {name: int(self._me[name]) for name in ("retransmissions", "malformed", "unexpected")}

    @property
    def records(self) -> Any:
        """Answered RPCs, as `ROW` records; see `take_records`."""
        return self.state.log[: self._me["rows"]]

    def take_records(self, fresh: Any = None) -> Any:
        """The answered RPCs so far; the client goes on in `fresh`, an array of ROW records."""
        taken = self.records
        if fresh is None:
            fresh = records(len(self.state.log), ROW)
        self.state = self.state._replace(log=fresh)
        self._me["rows"] = 0
        return taken

    def hint(self, keys: Keys | None) -> None:
        """Forget all hints, then take these keys to be hot; keys of no interest to this job are ignored."""
        hinted = self.state.hinted
        hinted[:] = 0
        if keys is not None:
            at = self._space.positions(keys)
            at = at[at < self._space.size]
            np.bitwise_or.at(hinted, at >> 3, (1 << (at & 7)).astype(np.uint8))

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
        self.state = self.state._replace(answered=answered)
        self.state.deltas[: len(positions)] = deltas
        self._start(PUSH, iteration, positions)

    def empty(self, ps: int) -> None:
        """Start an RPC that asks a PS for nothing ([DDL] Fig. 9); the client must be idle."""
        self._machine.start_empty(self.state, ps)

    def renew(self, epoch: int) -> None:
        """Come back with another epoch, as the switch is another one, with none of what the last one held."""
        self._machine.renew(self.state, epoch)

    @property
    def owes(self) -> bool:
        """What a switch that is gone had acknowledged is to be pushed again: `replay`, before anything
        else."""
        return bool(self._me["owes"])

    def replay(self) -> None:
        """Start to push the next part of what is owed; the client must be idle, and may stay so."""
        assert self.log is not None
        n = self._machine.next_owed(self.state)
        if n:
            answered = self.log.note(self.state.positions[:n], self.state.deltas[:n])
            self._machine.take_owed(self.state, n)
            self.log.has_taken()
            self.state = self.state._replace(answered=answered)
            self._machine.start(self.state, PUSH, 0, n)

    def free_numbers(self) -> list[int]:
        """Next sequence numbers of the slots that are free, the next to be used last."""
        numbers: list[int] = self.state.free[: self._me["free"]].tolist()
        return numbers

    def set_free_numbers(self, numbers: list[int]) -> None:
        """Go on with these, as one that was idle had them."""
        self.state.free[: len(numbers)] = numbers

    def transmit(self) -> tuple[memoryview, int] | None:
        """The next datagram to be sent at once, and the PS whose service it goes to."""
        me = self._me
        if not me["queued_again"] and (me["first_unsent"] == NOTHING or not me["free"]):
            return None
        slot = self._machine.transmit(self.state, self._clock())
        if slot == NOTHING:
            return None
        row = self.state.slots[slot]
        start = slot * BUFFER_BYTES
        datagram = self._sent_bytes[start : start + int(row["length"])]
        return datagram, int(self.state.calls[row["call"]]["ps"])

    def receive(self, datagram: bytes | memoryview, arrival: int, read: int) -> None:
        """A datagram that the kernel received at `arrival` and that was read at `read`."""
        self._make_room()
        length = min(len(datagram), BUFFER_BYTES)
        self._inbox_bytes[:length] = datagram[:length]
        row = self._machine.receive(self.state, self._inbox, length, arrival, read)
        if row != NOTHING:
            self.state.log[row]["w_proc"] = self._clock() - read

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        due = self._machine.deadline(self.state)
        return None if due == NEVER else due

    def wake(self, now: int) -> None:
        """Send again what is overdue, and refused lanes that have waited long enough."""
        if now >= self._me["due"]:
            self._machine.wake(self.state, now)

    def _start(self, op: int, iteration: int, positions: NDArray[np.integer]) -> None:
        size = len(positions)
        if size > self._largest:
            raise ValueError(f"an operation on {size} parameters; this client takes {self._largest}")
        self.state.positions[:size] = positions
        self._machine.start(self.state, op, iteration, size)

    def _make_room(self) -> None:
        log = self.state.log
        if self._me["rows"] == len(log):
            larger = records(2 * len(log) + 1, ROW)
            larger[: len(log)] = log
            self.state = self.state._replace(log=larger)
