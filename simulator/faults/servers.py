"""Parameter servers that are killed and come back: the real ones, behind frames and a journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np

from experiment.config import EPOCH
from foundation.designs.interface import NEVER
from foundation.designs.registry import design
from foundation.protocol import addressing, frames
from foundation.protocol.codec import Keys
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import HOTLINE_PORT, PS_RPC_PORT
from hosts.designs import AGENTS
from hosts.keys import KeySpace
from hosts.ps.core import Core
from simulator.contents import Contents
from simulator.world import Simulated

_CHECKPOINTS = 0.5
"""Of kills, shortly before which there is one."""


class VirtualServer:
    """Server `p` of a network: the loop answers workers' RPCs by its arrays, the real one does the rest."""

    def __init__(
        self,
        network: Simulated,
        contents: Contents,
        space: KeySpace,
        p: int,
        servers: int,
        now: Callable[[], int],
    ) -> None:
        self.p = p
        self._arm, self._contents, self._space, self._servers = network.arm, contents, space, servers
        self._now = now
        self.state = network.servers[p]
        self.store = network.stores[p]
        host, service = addressing.server(p + 1), addressing.service(p + 1)
        self._data = UdpEndpoint(host.mac, host.address, HOTLINE_PORT)
        self._own = UdpEndpoint(host.mac, host.address, PS_RPC_PORT)
        self._service = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
        self._core: Core[UdpEndpoint] | None = None
        self.due = NEVER
        """When `wake` is due, as of the latest `to_send`."""
        self._checkpoint: dict[str, bytes] = {}
        self._lent_at_first = np.zeros(0, np.uint64)
        """Keys that the switch had at the beginning."""

    @property
    def core(self) -> Core[UdpEndpoint]:
        """The server, made when it is needed."""
        if self._core is None:
            self._core = AGENTS.of(design(self._arm.design)).core(
                self.p, self._servers, self._space, {self._arm.job: EPOCH}, self._now,
                replayed=True, state=self.state,
            )  # fmt: skip
        assert self._core is not None
        return self._core

    def forget(self) -> None:
        """Be as if it had just begun, but for the arrays."""
        self._core = None
        self.due = NEVER
        self._checkpoint = {}
        self._lent_at_first = np.zeros(0, np.uint64)

    def lend_at_first(self, keys: Keys) -> None:
        """The switch has those of these keys that are its own from the beginning."""
        self._lent_at_first = keys
        self._contents.lend(self.store, keys)

    def take(self, frame: bytes) -> None:
        """A frame that the loop has left: a command, or an answer to an RPC of its own."""
        parsed = frames.parse(frame)
        if parsed.destination.port == PS_RPC_PORT:
            self.core.receive_own(parsed.payload, self._now())
        else:
            self.core.command(parsed.payload, parsed.source)

    def to_send(self) -> Iterator[bytes]:
        """Frames that leave now."""
        if self._core is None:
            return
        for datagram in self._core.transmit():
            yield frames.build(UdpFrame(self._own, self._service, bytes(datagram)))
        for answer, to in self._core.control_answers():
            yield frames.build(UdpFrame(self._data, to, answer))
        due = self._core.deadline()
        self.due = NEVER if due is None else due

    def wake(self, now: int) -> None:
        """Send again what is overdue."""
        self.core.wake(now)

    def keep(self) -> bool:
        """Make a checkpoint, if that can be now: the journal is empty then."""
        if not self.core.is_idle:
            return False
        self._checkpoint = dict(self.core.checkpoint())
        self.core.server.forget_notes()
        return True

    def keep_at_times(self, random: Random) -> None:
        """Make a checkpoint or not, as at any time between two bursts."""
        if random.random() < _CHECKPOINTS:
            self.keep()

    def recover(self, notes: bytes) -> None:
        """Come back after a kill, in arrays of zeros, with what is in the journal."""
        self._core = None
        if not self._checkpoint:
            self._contents.lend(self.store, self._lent_at_first)
        self.core.recover(self._checkpoint, [notes])
        journal = np.frombuffer(notes, np.uint8)
        self.state.journal[: len(journal)] = journal
        self.state.header.noted = len(journal)
