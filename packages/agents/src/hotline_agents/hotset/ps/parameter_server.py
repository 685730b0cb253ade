"""A parameter server as one state machine: RPCs of workers, commands, RPCs to the switch's registers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from foundation.errors import MalformedDatagram
from foundation.optimisers import TableOptimiser
from foundation.protocol import control
from foundation.protocol.header import HEADER_BYTES, PS_BITS, PS_MASK, Op, offset_of, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.checkpoint import MoverKey, restore_checkpoint, take_checkpoint
from hotline_agents.hotset.ps.moves import BaseMover, Mover, ReplyTo
from hotline_agents.hotset.ps.state import OffloadingState, make_server
from hotline_agents.hotset.ps.store import HotsetStore, OffloadingStore
from hotline_agents.ps.journal import FROM_CONTROLLER, FROM_SWITCH, WAIT_ENDED, read_note
from hotline_agents.ps.rpcs import CALLER
from hotline_agents.ps.server_core import ServerCore
from hotline_agents.worker.ops import COMPILED, plain_ops

_OP_AT = offset_of("op")
_WAIT_ENDED = struct.Struct("<II")
"""Content of a note `WAIT_ENDED`: the job and the home of the mover that has waited."""


class OffloadingServer(ServerCore[ReplyTo]):
    """One PS of `n_ps`. `epochs` maps each job to the epoch of this PS as a caller of the switch.

    It has hot sets in several switches, its `homes`, if the design allows, and a mover for each job and home.
    With a journal it is durable. `has_replay_logs`: whether workers keep any; `tables` has the optimisers.
    `state` is the state of a new PS; None makes one.
    """

    stores: Mapping[int, OffloadingStore]
    persisted_arrays: ClassVar[Sequence[str]]
    # A design's classes of state, store and mover fit together.
    make_state: ClassVar[Callable[..., Any]]
    make_store: ClassVar[Callable[..., Any]]
    make_mover: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        ps: int,
        n_ps: int,
        space: KeySpace,
        epochs: Mapping[int, int],
        clock: Callable[[], int],
        as_plain: bool = False,
        *,
        journal_bytes: int = 0,
        has_replay_logs: bool = False,
        state: OffloadingState | None = None,
        tables: Sequence[TableOptimiser] = (),
        homes: int = 1,
    ) -> None:
        self._clock = clock
        of_homes = {} if homes == 1 else {"homes": homes}  # most designs allow one
        server_state = state or self.make_state(
            ps, n_ps, space, list(epochs), journal_bytes, tables, **of_homes
        )
        stores = {job: self.make_store(server_state, job, has_replay_logs) for job in epochs}
        super().__init__(server_state, stores, clock, as_plain)
        ops = plain_ops() if as_plain else COMPILED
        self._movers: dict[MoverKey, BaseMover[Any, ReplyTo]] = {
            (job, home): self.make_mover(job, ps | home << PS_BITS, n_ps, epoch, space, store, clock, ops)
            for job, epoch in epochs.items()
            for home, store in enumerate(self.stores[job].by_home)
        }
        for key, mover in self._movers.items():
            mover.others = [other for at, other in self._movers.items() if at[0] == key[0] and at != key]

    def handle(
        self, datagram: bytes | memoryview, arrival: int, read: int, source: ReplyTo
    ) -> tuple[int, bytes] | None:
        """Handle a datagram at the data port; return job and answer, or None. Commands are answered later."""
        if len(datagram) < HEADER_BYTES or datagram[_OP_AT] != Op.CONTROL:
            return self.server.handle(datagram, arrival, read)
        self.command(datagram, source)
        return None

    def command(self, datagram: bytes | memoryview, source: ReplyTo | None) -> None:
        try:
            command = control.parse(datagram)
        except MalformedDatagram:
            self.server.count_malformed()
            return
        mover = self._mover(command.job, command.ps)
        if mover is None or command.is_answer:
            self.server.count_misdirected()
        else:
            self.server.note(FROM_CONTROLLER, datagram)
            mover.command(command, source)

    def _mover(self, job: int, ps: int) -> BaseMover[Any, ReplyTo] | None:
        """Return the mover of a job at the home where this server has the number `ps`, or None."""
        return self._movers.get((job, ps >> PS_BITS)) if ps & PS_MASK == self.ps else None

    def switch_epoch(self, job: int, home: int = 0) -> int:
        return self._movers[job, home].switch_epoch

    def receive_rpc_answer(self, datagram: bytes | memoryview, read: int) -> None:
        try:
            header = unpack(datagram)
        except MalformedDatagram:
            self.server.count_malformed()
            return
        mover = self._mover(header.job, header.ps)
        if mover is None:
            self.server.count_misdirected()
        else:
            self.server.note(FROM_SWITCH, datagram)
            mover.receive(datagram, read)

    @property
    def is_idle(self) -> bool:
        return all(mover.is_idle for mover in self._movers.values())

    def checkpoint(self) -> Iterator[tuple[str, bytes]]:
        return take_checkpoint(self.server.state, self._movers, self.persisted_arrays)

    def recover(self, parts: Mapping[str, bytes], journal: Iterable[bytes]) -> int:
        n_notes = 0
        if parts:
            self.server.make_room(len(parts["callers"]) // CALLER.itemsize)
            restore_checkpoint(self.server.state, self._movers, parts, self.persisted_arrays)
        self.server.state.header.is_durable = 0  # do not journal the replayed notes again
        for part in journal:
            n_notes += self._replay_journal(np.array(np.frombuffer(part, np.uint8)))
        self.server.collect_connection_records()
        self.server.state.header.is_durable = 1
        if n_notes or parts:
            for store in self.stores.values():
                for each in store.by_home:
                    each.restart_counts()
        return n_notes

    def _replay_journal(self, notes: NDArray[np.uint8]) -> int:
        offset, n_replayed = 0, 0
        while offset < len(notes):
            offset, n_handled = self.server.replay_journal(notes, offset)
            n_replayed += n_handled
            for _ in self.transmit():  # RPCs are not sent: the journal has their answers
                pass
            if offset < len(notes):
                source, datagram, offset = read_note(notes, offset)
                n_replayed += 1
                self._replay_note(source, datagram)
        for _ in self.transmit():
            pass
        return n_replayed

    def _replay_note(self, source: int, datagram: bytes) -> None:
        if source == FROM_CONTROLLER:
            self.command(datagram, None)
        elif source == WAIT_ENDED:
            self._movers[_WAIT_ENDED.unpack(datagram)].resume()
        else:
            self.receive_rpc_answer(datagram, self._clock())

    def transmit(self) -> Iterator[memoryview]:
        for mover in self._movers.values():
            yield from iter(mover.transmit, None)

    def control_answers(self) -> Iterator[tuple[bytes, ReplyTo]]:
        for mover in self._movers.values():
            while mover.answers:
                yield mover.answers.popleft()

    def deadline(self) -> int | None:
        deadlines = (mover.deadline() for mover in self._movers.values())
        return min((due for due in deadlines if due is not None), default=None)

    def wake(self, now: int) -> None:
        for (job, home), mover in self._movers.items():
            mover.wake(now)
            if mover.can_resume:
                # A push may be treated differently after this moment, so a replay must resume here, too.
                self.server.note(WAIT_ENDED, _WAIT_ENDED.pack(job, home))
                mover.resume()

    @property
    def malformed(self) -> int:
        return self.server.malformed + sum(mover.malformed for mover in self._movers.values())


class ParameterServer(OffloadingServer[ReplyTo]):
    stores: Mapping[int, HotsetStore]
    persisted_arrays = ("cells", "at_switch", "homes_of_rows")
    make_state = staticmethod(make_server)
    make_store = HotsetStore
    make_mover = Mover
