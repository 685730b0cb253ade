"""Moves of keys whose values stay at the PS: a move in publishes copies, a move out collects gradients."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import ClassVar

import numpy as np

from foundation.protocol.codec import Keys
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import SET
from hosts.collect.client import CollectClient
from hosts.collect.store import BY_COMMAND, BY_MOVE, CollectStore
from hosts.hotset.ps.moves import BaseMover, ReplyTo
from hosts.hotset.worker.client import HotsetClient
from hosts.keys import KeySpace
from hosts.worker.machine import COMPILED, Machine

_POLL_NS = 200_000
"""Interval, in ns, of checks whether the collections that a command waits for have ended."""


class CollectMover(BaseMover[CollectStore, ReplyTo]):
    """A mover that pauses collections: while keys leave the switch, no collection is under way."""

    client: ClassVar[type[HotsetClient]] = CollectClient
    _waits_for: str = ""
    """Field of the collector that must be 0 before the command goes on (`resume`); empty for none."""

    def __init__(
        self, job: int, ps: int, n_ps: int, epoch: int, space: KeySpace, store: CollectStore,
        clock: Callable[[], int], machine: Machine = COMPILED,
    ) -> None:  # fmt: skip
        super().__init__(job, ps, n_ps, epoch, space, store, clock, machine)
        store.renew(epoch)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._waits_for)

    @property
    def can_resume(self) -> bool:
        return self._is_waiting and not getattr(self._store.collector, self._waits_for)

    def resume(self) -> None:
        self._waits_for = ""
        super().resume()

    def deadline(self) -> int | None:
        due = super().deadline()
        if not self._is_waiting:
            return due
        poll = self._clock() + _POLL_NS
        return poll if due is None else min(due, poll)

    def _renew(self, epoch: int) -> None:
        is_new_epoch = epoch != self._caller.epoch
        super()._renew(epoch)
        if is_new_epoch:
            self._waits_for = ""
        self._store.renew(epoch)

    def _seed(self, keys: Keys) -> Generator[None, None, Status]:
        store = self._store
        store.resume(BY_COMMAND)
        at = store.locate(keys)
        values = store.release(at)
        self._switch.prepare(0, SET)
        self._push(keys, values)
        yield
        self._switch.prepare(0)
        missing = ~self._switch.served
        store.reclaim(at[missing])
        store.begin_collecting(at[~missing], self._clock())
        return Status.NO_ENTRY if missing.any() else Status.OK

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        store = self._store
        store.hold(BY_MOVE)
        yield from self._wait_for("under_way")
        self._pull(keys)
        yield
        found = self._switch.served
        in_switch, values = keys[found], self._switch.values[found].copy()
        self._push(in_switch, np.negative(values))
        yield
        removed = self._switch.served
        at = store.locate(in_switch[removed])
        store.absorb(at, values[removed])
        store.reclaim(at)
        store.resume(BY_MOVE)
        return Status.OK if removed.sum() == len(keys) else Status.NO_ENTRY

    def _collection(self, control: Control) -> Generator[None, None, None]:
        store = self._store
        if control.command is Command.SETTLE:
            if int(control.keys[0]) == self._caller.epoch:
                store.settle()
        elif control.command is Command.HOLD:
            store.hold(BY_COMMAND)
            yield from self._wait_for("under_way")
        else:
            store.resume(BY_COMMAND)
            store.request_full_collection(self._clock())
            yield from self._wait_for("wanted")

    def _wait_for(self, field: str) -> Generator[None, None, None]:
        if getattr(self._store.collector, field):
            self._waits_for = field
            yield
