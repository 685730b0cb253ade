"""Moves of keys whose values stay at the PS: a move in publishes copies, a move out collects gradients."""

from __future__ import annotations

from collections.abc import Generator
from typing import ClassVar

from foundation.protocol.codec import Keys, Values
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import SET
from hotline_agents.collect.store import BY_COMMAND, BY_MOVE, CollectStore
from hotline_agents.hotset.ps.moves import BaseMover, ReplyTo
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.hotset.worker.state import CallsHeader
from hotline_agents.worker.client import NumberedPushes

_POLL_NS = 200_000  # interval, in ns, of checks whether the collections that a command waits for have ended


class CollectClient(HotsetClient, NumberedPushes):
    """The calls of a worker, or of a mover, for one job whose servers own all parameters."""

    _header: CallsHeader
    servers_own_parameters = True


class CollectMover(BaseMover[CollectStore, ReplyTo]):
    """A mover that pauses collections: while keys leave the switch, no collection is under way."""

    client: ClassVar[type[HotsetClient]] = CollectClient
    _awaited_counter: str = ""
    """Name of the collector's counter that must be 0 before the command resumes; empty for none."""

    @property
    def _is_waiting(self) -> bool:
        return bool(self._awaited_counter)

    @property
    def can_resume(self) -> bool:
        return self._is_waiting and not getattr(self._store.collector, self._awaited_counter)

    def resume(self) -> None:
        self._awaited_counter = ""
        super().resume()

    def deadline(self) -> int | None:
        due = super().deadline()
        if not self._is_waiting:
            return due
        poll = self._clock() + _POLL_NS
        return poll if due is None else min(due, poll)

    def _renew(self, epoch: int) -> None:
        if epoch != self._caller.epoch:
            self._awaited_counter = ""
        super()._renew(epoch)

    def _seed(self, keys: Keys) -> Generator[None, None, Status]:
        store = self._store
        store.resume(BY_COMMAND)  # a SEED also ends the controller's HOLD
        places = store.locate(keys)
        self._push(keys, store.release(places), word_flags=SET)
        yield
        is_missing = ~self._switch.served
        store.reclaim(places[is_missing])
        store.begin_collecting(places[~is_missing], self._clock())
        return Status.NO_ENTRY if is_missing.any() else Status.OK

    def _push(self, keys: Keys, deltas: Values, word_flags: int = 0) -> None:
        # Checkpoints have no number of pushes. A restarted server that numbered them anew would not take the
        # answers in its journal.
        self._switch.prepare(push_number=0, word_flags=word_flags)
        super()._push(keys, deltas)

    def _pull(self, keys: Keys) -> None:
        self._switch.prepare(push_number=0)
        super()._pull(keys)

    def _collect(self, keys: Keys) -> Generator[None, None, Status]:
        store = self._store
        store.hold(BY_MOVE)
        yield from self._wait_for_zero("n_in_flight")
        removed_keys, values = yield from self._take_out(keys)
        places = store.locate(removed_keys)
        store.absorb(places, values)
        store.reclaim(places)
        store.resume(BY_MOVE)
        return Status.OK if len(removed_keys) == len(keys) else Status.NO_ENTRY

    def _execute_collection_command(self, control: Control) -> Generator[None, None, None]:
        store = self._store
        if control.command is Command.SETTLE:
            epoch_of_switch = int(control.keys[0])
            if epoch_of_switch == self._caller.epoch:
                store.settle()
        elif control.command is Command.HOLD:
            store.hold(BY_COMMAND)
            yield from self._wait_for_zero("n_in_flight")
        else:
            store.resume(BY_COMMAND)
            store.request_full_collection(self._clock())
            yield from self._wait_for_zero("n_wanted")
            store.end_full_collection()

    def _wait_for_zero(self, counter: str) -> Generator[None, None, None]:
        if getattr(self._store.collector, counter):
            self._awaited_counter = counter
            yield
