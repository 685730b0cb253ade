"""Parameter servers that are killed and come back: their movers, their journals and their frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from designs.interface import NEVER, Arm
from hosts.hotset.ps.checkpoint import put_back, take_checkpoint
from hosts.hotset.ps.moves import Mover
from hosts.hotset.ps.store import Store
from hosts.keys import KeySpace
from hosts.ps.journal import FROM_CONTROLLER, FROM_SWITCH, FROM_WORKER, add_note, read_notes
from hosts.ps.machine import handle_one
from protocol import addressing, control, frames
from protocol.errors import MalformedDatagram
from protocol.frames import UdpEndpoint, UdpFrame
from protocol.header import HOTLINE_PORT, PS_RPC_PORT
from protocol.rpc import BUFFER_BYTES, rpcs
from simulator.world import Simulated
from topologies.config import EPOCH


class VirtualServer:
    """Server `p` of a network: the loop answers workers' RPCs, this does the rest."""

    def __init__(
        self, network: Simulated, arm: Arm, space: KeySpace, p: int, servers: int, now: Callable[[], int]
    ) -> None:
        self.p = p
        self._arm, self._space, self._servers, self._now = arm, space, servers, now
        self.state = network.servers[p]
        host, service = addressing.server(p + 1), addressing.service(p + 1)
        self._data = UdpEndpoint(host.mac, host.address, HOTLINE_PORT)
        self._own = UdpEndpoint(host.mac, host.address, PS_RPC_PORT)
        self._service = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
        self._rpcs = rpcs(2)
        self._octets = self._rpcs.view(np.uint8).reshape(2, BUFFER_BYTES)
        self.store = Store(self.state, arm.job, replayed=True)
        self._mover: Mover[UdpEndpoint] | None = None
        self.due = NEVER
        """When `wake` is due, as of the latest `to_send`."""
        self._checkpoint: dict[str, bytes] = {}
        self.lent_at_first = np.zeros(0, np.int64)
        """Places of the keys that the switch had at the beginning."""

    @property
    def mover(self) -> Mover[UdpEndpoint]:
        """Made when it is needed."""
        if self._mover is None:
            self._mover = Mover(
                self._arm.job, self.p, self._servers, EPOCH, self._space, self.store, self._now
            )
        return self._mover

    def forget(self) -> None:
        """Be as if it had just begun, but for the arrays."""
        self._mover = None
        self.due = NEVER
        self._checkpoint = {}
        self.lent_at_first = np.zeros(0, np.int64)

    def take(self, frame: bytes) -> None:
        """A frame that the loop has left: a command, or an answer to an RPC of its own."""
        parsed = frames.parse(frame)
        if parsed.destination.port == PS_RPC_PORT:
            self._note(FROM_SWITCH, parsed.payload)
            self.mover.receive(parsed.payload, self._now())
        else:
            self._note(FROM_CONTROLLER, parsed.payload)
            self._command(parsed.payload, parsed.source)

    def _command(self, datagram: bytes, source: UdpEndpoint | None) -> None:
        try:
            self.mover.command(control.parse(datagram), source)
        except MalformedDatagram:
            self.state.me.malformed += 1

    def to_send(self) -> Iterator[bytes]:
        """Frames that leave now."""
        if self._mover is None:
            return
        yield from self._frames()
        due = self._mover.deadline()
        self.due = NEVER if due is None else due

    def _frames(self) -> Iterator[bytes]:
        assert self._mover is not None
        while (datagram := self._mover.transmit()) is not None:
            yield frames.build(UdpFrame(self._own, self._service, bytes(datagram)))
        while self._mover.answers:
            answer, to = self._mover.answers.popleft()
            yield frames.build(UdpFrame(self._data, to, answer))

    def wake(self, now: int) -> None:
        """Send again what is overdue."""
        self.mover.wake(now)

    def keep(self) -> bool:
        """Make a checkpoint, if that can be now: the journal is empty then."""
        if not self.mover.is_idle:
            return False
        self._checkpoint = dict(take_checkpoint(self.state, {self._arm.job: self.mover}))
        self.state.me.noted = 0
        return True

    def recover(self) -> None:
        """Come back after a kill: what was noted since the checkpoint happens again, and nobody sees it."""
        me = self.state.me
        notes = self.state.journal[: me.noted].tobytes()
        noted, me.noted, me.is_durable = int(me.noted), 0, 0
        self._mover = None
        if self._checkpoint:
            put_back(self.state, {self._arm.job: self.mover}, self._checkpoint)
        else:
            self.store.give_away(self.lent_at_first)
        for source, datagram in read_notes(notes):
            if source == FROM_WORKER:
                self._octets[0, : len(datagram)] = np.frombuffer(datagram, np.uint8)
                handle_one(self.state, self._rpcs, len(datagram), 0)
                me.contacts = 0
            elif source == FROM_CONTROLLER:
                self._command(datagram, None)
            else:
                self.mover.receive(datagram, self._now())
            if self._mover is not None:
                while self._mover.transmit() is not None:
                    pass
        me.noted, me.is_durable = noted, 1

    def _note(self, source: int, datagram: bytes) -> None:
        self.state.me.noted = add_note(self.state.journal, int(self.state.me.noted), source, datagram)
