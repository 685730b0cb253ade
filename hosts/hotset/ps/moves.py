"""Moves of keys between a PS and the switch, one command of the controller at a time. No I/O.

The switch's registers are reached through the data plane by the PS's own RPCs: an idempotent read, and an
exactly-once add. A move adds to one side what it subtracts from the other; nothing is ever in two places, and
a lost answer costs nothing (docs/design.md). While a key is on its way its PS refuses it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from foundation.protocol.codec import Caller, Keys, Values
from foundation.protocol.control import MAX_KEYS, SLOTS, Command, Control, Status, build
from foundation.protocol.header import PS_CALLER_BASE
from hosts.hotset.ps.store import Store
from hosts.hotset.worker.client import Client
from hosts.keys import KeySpace
from hosts.worker.machine import COMPILED, Machine

ReplyTo = TypeVar("ReplyTo")


class Mover(Generic[ReplyTo]):
    """One job's moves at one PS of `n_ps`. `epoch` is that of the PS's own row in the switch."""

    def __init__(
        self,
        job: int,
        ps: int,
        n_ps: int,
        epoch: int,
        space: KeySpace,
        store: Store,
        clock: Callable[[], int],
        machine: Machine = COMPILED,
    ) -> None:
        self._caller = Caller(job, PS_CALLER_BASE + ps, epoch)
        self._new_client = partial(
            Client, n_ps=n_ps, space=space, clock=clock, largest=MAX_KEYS, machine=machine, registers=True
        )
        self._switch = self._new_client(self._caller)
        self._space = space
        self._store = store
        self._queue: OrderedDict[tuple[int, int], tuple[Control, ReplyTo | None]] = OrderedDict()
        self._script: Generator[None, None, Control] | None = None
        self._epoch: int | None = None
        self._latest = [-1] * SLOTS
        """The newest controller's latest number of each slot."""
        self._done: dict[int, tuple[tuple[int, int], bytes]] = {}
        """The last answer of each slot, and to which command."""
        self._ranked: tuple[Keys, Values] = np.empty(0, np.uint64), np.empty(0, np.uint32)
        """Keys and counts as BUSIEST tells them, page by page."""
        self.answers: deque[tuple[bytes, ReplyTo]] = deque()
        """Answers to the controller, with whom they go to; the owner sends and removes them."""

    def command(self, control: Control, reply_to: ReplyTo | None) -> None:
        """A command of the controller; one under way is not begun again, one that is done is answered.

        With nobody to reply to, as it is taken in again after a restart, it is answered when it is repeated.
        """
        identity, done = self._done.get(control.seq % SLOTS, (None, b""))
        if identity == control.identity:
            self._answer(done, reply_to)
        elif self._is_new(control):
            if control.command is Command.RENEW:
                self._renew(int(control.keys[0]))
            self._queue[control.identity] = control, reply_to
            self._go_on()

    def _renew(self, epoch: int) -> None:
        """The switch is that of an epoch; what another one had been asked to do is void."""
        if epoch != self._caller.epoch:
            self._caller = self._caller._replace(epoch=epoch)
            self._switch = self._new_client(self._caller)
            self._script = None
            self._queue.clear()
            self._store.restore()

    def _answer(self, answer: bytes, reply_to: ReplyTo | None) -> None:
        if reply_to is not None:
            self.answers.append((answer, reply_to))

    def _is_new(self, control: Control) -> bool:
        """Whether it is no copy, and not what an earlier controller, or this one long ago, has asked for.

        A late copy may undo what has been asked for since: only the newest controller is listened to. Epochs
        are compared as RFC 1982 says.
        """
        if control.epoch != self._epoch:
            if self._epoch is not None and (control.epoch - self._epoch) % 2**32 >= 2**31:
                return False
            self._epoch, self._latest = control.epoch, [-1] * SLOTS
        slot = control.seq % SLOTS
        is_new = control.seq > self._latest[slot]
        self._latest[slot] = max(control.seq, self._latest[slot])
        return is_new

    def receive(self, datagram: bytes | memoryview, read: int) -> None:
        """The switch's answer to a register RPC, read at `read` (ns)."""
        self._switch.receive(datagram, read, read)
        self._go_on()

    def transmit(self) -> memoryview | None:
        """The next register RPC to be sent at once, to this PS's own service address."""
        out = self._switch.transmit()
        return None if out is None else out[0]

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        return self._switch.deadline()

    def wake(self, now: int) -> None:
        """Send again what is overdue."""
        self._switch.wake(now)

    @property
    def is_idle(self) -> bool:
        """No command is under way."""
        return not self._queue

    def snapshot(self) -> dict[str, Any]:  # JSON
        """What a mover that is idle must know to go on after a restart, for JSON."""
        return {
            "epoch": self._caller.epoch,
            "free": self._switch.free_numbers(),
            "controller": self._epoch,
            "latest": self._latest,
            "done": [[slot, *identity, answer.hex()] for slot, (identity, answer) in self._done.items()],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:  # JSON
        """Go on where one that has just been made stood."""
        self._caller = self._caller._replace(epoch=snapshot["epoch"])
        self._switch = self._new_client(self._caller)
        self._switch.set_free_numbers(snapshot["free"])
        self._epoch, self._latest = snapshot["controller"], list(snapshot["latest"])
        self._done = {
            slot: ((epoch, seq), bytes.fromhex(text)) for slot, epoch, seq, text in snapshot["done"]
        }

    @property
    def malformed(self) -> int:
        """Datagrams at the PS's own port that were no RPCs."""
        return self._switch.malformed

    def _go_on(self) -> None:
        """Take the command in progress one step further, and begin the next when it is done."""
        while self._queue and self._switch.idle:
            identity, (control, reply_to) = next(iter(self._queue.items()))
            if self._script is None:
                self._script = self._execute(control)
            try:
                next(self._script)
            except StopIteration as end:
                self._script = None
                del self._queue[identity]
                answer = build(end.value)
                self._done[identity[1] % SLOTS] = identity, answer
                self._answer(answer, reply_to)

    def _execute(self, control: Control) -> Generator[None, None, Control]:
        """A command's course; yields while register RPCs are under way."""
        if control.command is Command.RENEW:
            return control.answer(Status.OK)
        if control.command is Command.BUSIEST:
            return self._page(control)
        keys = np.unique(control.keys)
        store, at = self._store, self._store.locate(keys)
        if not store.known(at).all():
            return control.answer(Status.NOT_MINE)
        if control.command is Command.VALUES:
            return control.answer(Status.OK, store.values(store.locate(control.keys)))
        status, owned = Status.OK, store.owned(at)
        if control.command is Command.SEED:
            status = yield from self._seed(keys[owned])
        elif control.command is Command.COLLECT:
            status = yield from self._collect(keys[~owned])
        return control.answer(status)

    def _seed(self, keys: Keys) -> Generator[None, None, Status]:
        """Refuse from now, then add here's values there."""
        at = self._store.locate(keys)
        values = self._store.release(at)
        self._push(keys, values)
        yield
        missing = ~self._switch.served
        self._store.reclaim(at[missing], values[missing])
        return Status.NO_ENTRY if missing.any() else Status.OK

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        """Read v, then add -v there and v here."""
        self._pull(keys)
        yield
        found = self._switch.served
        at_switch, values = keys[found], self._switch.values[found]
        self._push(at_switch, np.negative(values))
        yield
        taken = self._switch.served
        self._store.reclaim(self._store.locate(at_switch[taken]), values[taken])
        return Status.OK if taken.sum() == len(keys) else Status.NO_ENTRY

    def _page(self, control: Control) -> Control:
        """The answer to BUSIEST; what is asked for from rank 0 on is ranked anew."""
        rank, most = control.keys.tolist()
        if rank == 0:
            self._ranked = self._store.busiest(most)
        return control.page(*self._ranked)

    def _pull(self, keys: Keys) -> None:
        """Begin to read the registers of these distinct keys."""
        self._switch.pull(0, self._space.positions(keys))

    def _push(self, keys: Keys, deltas: Values) -> None:
        """Begin to add to the registers of these distinct keys."""
        answered = np.zeros(len(keys), dtype=np.bool_)
        self._switch.push(0, self._space.positions(keys), deltas, answered)
