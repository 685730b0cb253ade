"""Moves of keys between a PS and the switch, one command of the controller at a time. No I/O.

The switch's registers are reached through the data plane by the PS's own RPCs: an idempotent read, and an
exactly-once add. A move adds to one side what it subtracts from the other; nothing is ever in two places, and
a lost answer costs nothing (docs/design.md). While a key is on its way its PS refuses it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hosts.ps.store import Store
from hosts.window import Window
from protocol.bitmap import lanes_in
from protocol.codec import Caller, Codec, Keys, Values, answers
from protocol.control import SLOTS, Command, Control, Status, build
from protocol.errors import MalformedDatagram
from protocol.hashing import lanes_of
from protocol.header import PS_CALLER_BASE, WINDOW, Op
from protocol.packing import pack

ReplyTo = TypeVar("ReplyTo")


class _Call(NamedTuple):
    """One register RPC of the step in progress."""

    datagram: memoryview
    keys_at: NDArray[np.int32]
    """Index in the step of each lane's key; the step's size where the lane is not live."""


class Mover(Generic[ReplyTo]):
    """One job's moves at one PS. `epoch` is that of the PS's own row in the switch."""

    def __init__(
        self, job: int, ps: int, epoch: int, store: Store, codec: Codec, clock: Callable[[], int]
    ) -> None:
        self._caller = Caller(job, PS_CALLER_BASE + ps, epoch)
        self._ps = ps
        self._store = store
        self._codec = codec
        self._clock = clock
        self._window: Window[_Call] = Window(WINDOW)
        self._unsent: deque[_Call] = deque()
        self._again: deque[_Call] = deque()
        self._served = np.zeros(1, dtype=np.bool_)
        self._read: Values = np.zeros(1, dtype=np.uint32)
        self._queue: OrderedDict[tuple[int, int], tuple[Control, ReplyTo]] = OrderedDict()
        self._script: Generator[None, None, Control] | None = None
        self._epoch: int | None = None
        self._latest = [-1] * SLOTS
        """The newest controller's latest number of each slot."""
        self._done: dict[int, tuple[tuple[int, int], bytes]] = {}
        """The last answer of each slot, and to which command."""
        self.answers: deque[tuple[bytes, ReplyTo]] = deque()
        """Answers to the controller, with whom they go to; the owner sends and removes them."""
        self.malformed = 0
        self.unexpected = 0

    def command(self, control: Control, reply_to: ReplyTo) -> None:
        """A command of the controller; one under way is not begun again, one that is done is answered."""
        identity, done = self._done.get(control.seq % SLOTS, (None, b""))
        if identity == control.identity:
            self.answers.append((done, reply_to))
        elif self._is_new(control):
            self._queue[control.identity] = control, reply_to
            self._go_on()

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
        try:
            header, _, values = self._codec.parse(datagram)
        except MalformedDatagram:
            self.malformed += 1
            return
        rpc = self._window.find(header.seq)
        if rpc is None or not answers(datagram, header, rpc.call.datagram):
            self.unexpected += 1
            return
        self._window.close(header.seq, read)
        keys_at = rpc.call.keys_at
        self._served[keys_at] = lanes_in(header.served, header.count)
        if values is not None:
            self._read[keys_at] = values
        if not (self._unsent or len(self._window)):
            self._go_on()

    def transmit(self) -> memoryview | None:
        """The next register RPC to be sent at once, to this PS's own service address."""
        if self._again:
            return self._again.popleft().datagram
        if not (self._unsent and self._window.is_open):
            return None
        call = self._unsent.popleft()
        now = self._clock()
        self._codec.stamp_request(call.datagram, self._window.issue(call, now), now)
        return call.datagram

    def deadline(self) -> int | None:
        """When `wake` is due next, or None."""
        return self._window.deadline()

    def wake(self, now: int) -> None:
        """Send again what is overdue."""
        self._again.extend(self._window.overdue(now))

    def _go_on(self) -> None:
        """Take the command in progress one step further, and begin the next when it is done."""
        while self._queue and not (self._unsent or len(self._window)):
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
                self.answers.append((answer, reply_to))

    def _execute(self, control: Control) -> Generator[None, None, Control]:
        """A command's course; yields while register RPCs are under way."""
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
        values = self._store.give_away(at)
        self._call(Op.PUSH, keys, values)
        yield
        missing = ~self._served[:-1]
        self._store.take_home(at[missing], values[missing])
        return Status.NO_ENTRY if missing.any() else Status.OK

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        """Read v, then add -v there and v here."""
        self._call(Op.PULL, keys, None)
        yield
        found = self._served[:-1]
        at_switch, values = keys[found], self._read[:-1][found]
        self._call(Op.PUSH, at_switch, np.negative(values))
        yield
        taken = self._served[:-1]
        self._store.take_home(self._store.locate(at_switch[taken]), values[taken])
        return Status.OK if taken.sum() == len(keys) else Status.NO_ENTRY

    def _call(self, op: Op, keys: Keys, deltas: Values | None) -> None:
        """Queue register RPCs for these distinct keys, each in its hash lane."""
        size = len(keys)
        self._served = np.zeros(size + 1, dtype=np.bool_)
        self._read = np.zeros(size + 1, dtype=np.uint32)
        if not size:
            return
        ps = np.full(size, self._ps, dtype=np.uint16)
        packing = pack(ps, lanes_of(keys), np.ones(size, dtype=np.bool_))
        datagrams = self._codec.requests(op, self._caller, 0, packing, keys, deltas)
        for datagram, position, count in zip(
            datagrams, packing.position, packing.count.tolist(), strict=True
        ):
            self._unsent.append(_Call(datagram, position[:count]))
