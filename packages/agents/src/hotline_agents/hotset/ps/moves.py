"""Moves of keys between a PS and the switch, one command of the controller at a time. No I/O.

The PS reads and writes the switch's registers with RPCs of its own: an idempotent read, and an exactly-once
add. A move adds to one side what it subtracts from the other, so no value exists twice, and a lost answer
changes nothing (docs/design.md). While a key is being moved its PS refuses it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import ClassVar, Generic, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Caller, Keys, Values
from foundation.protocol.control import MAX_KEYS, SLOTS, Command, Control, Status, build
from foundation.protocol.header import PS_BITS, PS_CALLER_BASE
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.command_order import CommandOrder, CommandOrderSnapshot
from hotline_agents.hotset.ps.store import HotsetStore, OffloadingStore
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.client import NO_ITERATION
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps

ReplyTo = TypeVar("ReplyTo")
S = TypeVar("S", bound=OffloadingStore)


class MoverSnapshot(TypedDict):
    epoch: int
    free: list[int]  # next sequence numbers of the free slots (`HotsetClient.free_numbers`)
    order: CommandOrderSnapshot
    done: list[tuple[int, int, int, str]]
    """Last command of each slot: slot, epoch, sequence number, and the answer in hexadecimal."""


class BaseMover(Generic[S, ReplyTo]):
    """One job's moves between a home and one PS of `n_ps`, whose number there is `ps`.

    `epoch` is that of the PS as a caller of the switch.

    Subclasses implement the moves as generators that yield while register RPCs are outstanding.
    """

    client: ClassVar[type[HotsetClient]] = HotsetClient

    def __init__(
        self,
        job: int,
        ps: int,
        n_ps: int,
        epoch: int,
        space: KeySpace,
        store: S,
        clock: Callable[[], int],
        ops: AnyWorkerOps = COMPILED,
    ) -> None:
        self._caller = Caller(job, PS_CALLER_BASE + ps, epoch)
        self._client_of = partial(
            self.client,
            n_ps=n_ps,
            space=space,
            clock=clock,
            max_keys=MAX_KEYS,
            ops=ops,
            uses_registers=True,
        )
        self._home_index = ps >> PS_BITS
        self._switch = self._make_client(self._caller)
        self._space, self._clock = space, clock
        self._store = store
        self._queue: OrderedDict[tuple[int, int], tuple[Control, ReplyTo | None]] = OrderedDict()
        self._execution: Generator[None, None, Control | None] | None = None
        """The steps left of the first command in the queue, or of a hand-over (`hand_over`)."""
        self._is_handing_over = self._has_residues = self._awaits_others = False
        self.others: Sequence[BaseMover[S, ReplyTo]] = ()
        """The job's moves between other homes and this PS."""
        self._order = CommandOrder()
        self._last_answers: dict[int, tuple[tuple[int, int], bytes]] = {}  # slot -> identity and answer
        self._ranking: tuple[Keys, Values] = np.empty(0, np.uint64), np.empty(0, np.uint32)
        self.answers: deque[tuple[bytes, ReplyTo]] = deque()
        """Answers to the controller with their destinations; the mover's owner sends and removes them."""
        store.renew(epoch)

    def _make_client(self, caller: Caller) -> HotsetClient:
        client = self._client_of(caller)
        client.set_home_index(self._home_index)
        return client

    def command(self, control: Control, reply_to: ReplyTo | None) -> None:
        """Handle a command of the controller, unless it is in progress; repeat the answer of a finished one.

        A command of an earlier controller is refused, and the answer has an epoch that another one may take.
        Without `reply_to`, as in a replay of the journal, a command is answered when it is repeated.
        """
        identity, answer = self._last_answers.get(control.seq % SLOTS, (None, b""))
        if identity == control.identity:
            self._answer(answer, reply_to)
        elif not self._order.admits(control.epoch):
            self._answer(build(control.answer_stale(self._order.issue())), reply_to)
        elif self._order.is_first_copy(control.seq):
            if control.command is Command.RENEW:
                self._renew(int(control.keys[0]))
            self._queue[control.identity] = control, reply_to
            self._advance()

    def _renew(self, epoch: int) -> None:
        """Continue with the switch of an epoch; commands for another switch are dropped."""
        if epoch != self._caller.epoch:
            self._caller = self._caller._replace(epoch=epoch)
            self._switch = self._make_client(self._caller)
            self._execution = None
            self._is_handing_over = self._has_residues = self._awaits_others = False
            self._queue.clear()
            self._store.restore()
            for other in self.others:  # which may wait for what has ended with the switch
                other._advance()
        self._store.renew(epoch)

    def _answer(self, answer: bytes, reply_to: ReplyTo | None) -> None:
        if reply_to is not None:
            self.answers.append((answer, reply_to))

    def receive(self, datagram: bytes | memoryview, read: int) -> None:
        self._switch.receive(datagram, arrival=read, read=read)
        self._advance()

    def transmit(self) -> memoryview | None:
        """Return the next register RPC to send to this PS's own service address, or None."""
        request = self._switch.transmit()
        return None if request is None else request[0]

    def deadline(self) -> int | None:
        return self._switch.deadline()

    def wake(self, now: int) -> None:
        self._switch.wake(now)

    @property
    def is_idle(self) -> bool:
        return not (self._queue or self._owes_residues)

    @property
    def _is_waiting(self) -> bool:
        """Whether the command in progress waits for something other than the switch, until `resume`."""
        return self._awaits_others and any(other._owes_residues for other in self.others)

    @property
    def _owes_residues(self) -> bool:
        return self._has_residues or self._is_handing_over

    @property
    def can_resume(self) -> bool:
        return False

    def resume(self) -> None:
        self._advance()

    @property
    def switch_epoch(self) -> int:
        """Epoch of this PS as a caller of the switch."""
        return self._caller.epoch

    def snapshot(self) -> MoverSnapshot:
        """Return the state of the mover, which must be idle."""
        return {
            "epoch": self._caller.epoch,
            "free": self._switch.free_numbers(),
            "order": self._order.snapshot(),
            "done": [
                (slot, *identity, answer.hex()) for slot, (identity, answer) in self._last_answers.items()
            ],
        }

    def restore(self, snapshot: MoverSnapshot) -> None:
        self._caller = self._caller._replace(epoch=snapshot["epoch"])
        self._switch = self._make_client(self._caller)
        self._switch.set_free_numbers(snapshot["free"])
        self._order.restore(snapshot["order"])
        self._last_answers = {
            slot: ((epoch, seq), bytes.fromhex(text)) for slot, epoch, seq, text in snapshot["done"]
        }

    @property
    def malformed(self) -> int:
        return self._switch.malformed

    def _advance(self) -> None:
        while self._switch.idle and not self._is_waiting:
            if self._execution is None:
                if self._has_residues:
                    self._has_residues, self._is_handing_over = False, True
                    self._execution = self._hand_over()
                elif self._queue:
                    control, _ = next(iter(self._queue.values()))
                    self._execution = self._execute(control)
                else:
                    return
            try:
                next(self._execution)
            except StopIteration as end:
                self._execution = None
                self._end(end.value)

    def _end(self, answered: Control | None) -> None:
        """End the execution of the first command, or without an answer a hand-over."""
        if answered is None:
            self._is_handing_over = False
            for other in self.others:
                other._advance()
            return
        identity, (_, reply_to) = next(iter(self._queue.items()))  # identity: epoch and seq
        del self._queue[identity]
        answer = build(answered)
        self._last_answers[identity[1] % SLOTS] = identity, answer
        self._answer(answer, reply_to)

    def hand_over(self) -> None:
        """Begin to add the residues of rows that this home has to their registers.

        A row has a residue at its PS if it was at another home before, and that one is lost: what the lost
        home had acknowledged is subtracted, as workers push it again.
        """
        if self._store.keys_with_residues().size:
            self._has_residues = True
            self._advance()

    def _hand_over(self) -> Generator[None, None, None]:
        raise NotImplementedError  # rows of other designs have no residues

    def _execute(self, control: Control) -> Generator[None, None, Control]:
        """Execute a command; yield while register RPCs are outstanding."""
        if control.command is Command.RENEW:
            for other in self.others:
                other.hand_over()
            self._awaits_others = True
            while self._is_waiting:
                yield
            self._awaits_others = False
            return control.answer(Status.OK)
        if control.command is Command.BUSIEST:
            return self._ranking_page(control)
        if control.command in (Command.PUBLISH, Command.HOLD, Command.SETTLE):
            yield from self._execute_collection_command(control)
            return control.answer(Status.OK)
        keys = np.unique(control.keys)
        store, places = self._store, self._store.locate(keys)
        if not store.is_in_share(places).all():
            return control.answer(Status.NOT_OWNED)
        is_elsewhere = store.is_at_another_home(places)
        if is_elsewhere.any() and control.command is not Command.COLLECT:
            return control.answer(Status.NOT_OWNED)
        if control.command is Command.VALUES:  # answered in the order of its keys, which may repeat
            if (store.dims(places) != control.dim).any():
                return control.answer(Status.NOT_OWNED)
            return control.answer(Status.OK, store.values(store.locate(control.keys)))
        status, is_owned = Status.OK, store.is_owned(places)
        if control.command is Command.SEED:
            status = yield from self._seed(keys[is_owned])
        elif control.command is Command.COLLECT:
            status = yield from self._collect(keys[~is_owned & ~is_elsewhere])
        return control.answer(status)

    def _seed(self, keys: Keys) -> Generator[None, None, Status]:
        """Move keys, which this PS serves, into the switch."""
        raise NotImplementedError  # every design implements its own

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        """Move keys out of the switch."""
        raise NotImplementedError  # every design implements its own

    def _take_out(self, keys: Keys) -> Generator[None, None, tuple[Keys, Values]]:
        """Read the rows v of keys, then add -v to their registers; return the removed keys and v."""
        self._pull(keys)
        yield
        is_in_switch = self._switch.served
        switch_keys, values = keys[is_in_switch], self._switch.values[self._of_values(keys, is_in_switch)]
        self._push(switch_keys, np.negative(values))
        yield
        is_removed = self._switch.served
        return switch_keys[is_removed], values[self._of_values(switch_keys, is_removed)]

    def _of_values(self, keys: Keys, of_rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return flags of rows [n], for each of their values."""
        return of_rows.repeat(self._space.dims_at(self._space.positions(keys)))

    def _execute_collection_command(self, control: Control) -> Generator[None, None, None]:
        """Execute PUBLISH, HOLD or SETTLE; designs without collections do nothing."""
        yield from ()

    def _ranking_page(self, control: Control) -> Control:
        rank, limit = control.keys.tolist()
        if rank == 0:  # the first page of a new ranking
            self._ranking = self._store.busiest(limit)
        return control.answer_busiest(*self._ranking)

    def _pull(self, keys: Keys) -> None:
        self._switch.pull(NO_ITERATION, self._space.positions(keys))

    def _push(self, keys: Keys, deltas: Values) -> None:
        answered = np.zeros(len(keys), dtype=np.bool_)
        self._switch.push(NO_ITERATION, self._space.positions(keys), deltas, answered)


class Mover(BaseMover[HotsetStore, ReplyTo]):
    def _hand_over(self) -> Generator[None, None, None]:
        all_keys = self._store.keys_with_residues()
        for start in range(0, len(all_keys), MAX_KEYS):
            keys = all_keys[start : start + MAX_KEYS]
            places = self._store.locate(keys)
            values = self._store.release(places)
            self._push(keys, values)
            yield
            is_missing = ~self._switch.served
            if is_missing.any():  # the switch is empty, and is lost for the PS as soon as it is told so
                self._store.take_back(places[is_missing], values[self._of_values(keys, is_missing)])
                return

    def _seed(self, keys: Keys) -> Generator[None, None, Status]:
        """Refuse the keys from now on, then add their values to the switch's registers."""
        places = self._store.locate(keys)
        values = self._store.release(places)
        self._push(keys, values)
        yield
        is_missing = ~self._switch.served
        self._store.reclaim(places[is_missing], values[self._of_values(keys, is_missing)])
        return Status.NO_ENTRY if is_missing.any() else Status.OK

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        removed_keys, values = yield from self._take_out(keys)
        self._store.reclaim(self._store.locate(removed_keys), values)
        return Status.OK if len(removed_keys) == len(keys) else Status.NO_ENTRY
