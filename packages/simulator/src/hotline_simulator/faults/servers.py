"""Parameter servers that can be killed and restarted: real code, with simulated frames and journals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from experiment.run_config import EPOCH
from foundation.designs.registry import design
from foundation.protocol import addressing, frames
from foundation.protocol.codec import Keys, Values
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import HOTLINE_PORT, PS_RPC_PORT
from hosts.keys import KeySpace
from hotline_agents.designs import agents_of
from hotline_agents.interface import NEVER
from hotline_agents.ps.server_core import ServerCore
from hotline_simulator.switch_state import SwitchStateOps
from hotline_simulator.world import SimulatedNetwork


class ServerHost(Protocol):
    """A server of a testbed: what arrives at it, and when it acts without a frame."""

    p: int

    @property
    def due(self) -> int:
        """When `wake` is due, ns, or NEVER."""

    def reset(self) -> None: ...

    def release_initial_keys(self, keys: Sequence[Keys]) -> None:
        """Give each home its keys of these, by home of the server."""

    def receive(self, frame: bytes) -> None: ...

    def wake(self, now: int) -> None: ...

    def frames_to_send(self) -> Iterator[bytes]: ...

    def sums(self) -> tuple[Keys, Values]:
        """Return the keys of the share and their sums here, both [n]."""


class RestartableServer:
    """Server `p` of a network: the event loop answers RPCs of workers, `ServerCore` all other frames."""

    def __init__(
        self,
        network: SimulatedNetwork,
        state_ops: SwitchStateOps,
        space: KeySpace,
        p: int,
        servers: int,
        now: Callable[[], int],
    ) -> None:
        self.p = p
        self._arm, self._state_ops, self._space, self._servers = network.arm, state_ops, space, servers
        self._now = now
        self.state = network.servers[p]
        self.store = network.stores[p]
        # Addresses are numbered from 1.
        host, service = addressing.server(p + 1), addressing.service(p + 1)
        self._control = UdpEndpoint(host.mac, host.address, HOTLINE_PORT)
        self._rpc_client = UdpEndpoint(host.mac, host.address, PS_RPC_PORT)
        self._service = UdpEndpoint(service.mac, service.address, HOTLINE_PORT)
        self.reset()

    def reset(self) -> None:
        self._core: ServerCore[UdpEndpoint] | None = None
        self.due = NEVER  # `frames_to_send` updates it
        self._checkpoint: dict[str, bytes] = {}
        self._committed_notes: list[bytes] = []  # since the checkpoint
        self._initial_switch_keys: Sequence[Keys] = [np.zeros(0, np.uint64)]

    @property
    def core(self) -> ServerCore[UdpEndpoint]:
        if self._core is None:
            self._core = agents_of(design(self._arm.design)).core(
                self.p, self._servers, self._space, {self._arm.job: EPOCH}, self._now,
                has_replay_logs=True, state=self.state,
            )  # fmt: skip
        assert self._core is not None
        return self._core

    def release_initial_keys(self, keys: Sequence[Keys]) -> None:
        self._initial_switch_keys = keys
        self._state_ops.release_to_switch(self.store, keys)

    def receive(self, frame: bytes) -> None:
        parsed = frames.parse(frame)
        if parsed.destination.port == PS_RPC_PORT:
            self.core.receive_rpc_answer(parsed.payload, self._now())
        else:
            self.core.command(parsed.payload, parsed.source)

    def wake(self, now: int) -> None:
        self.core.wake(now)

    def sums(self) -> tuple[Keys, Values]:
        contents = self.store.contents()
        return contents.keys, contents.sums

    def frames_to_send(self) -> Iterator[bytes]:
        if self._core is None:
            return
        for datagram in self._core.transmit():
            yield frames.build(UdpFrame(self._rpc_client, self._service, bytes(datagram)))
        for answer, destination in self._core.control_answers():
            yield frames.build(UdpFrame(self._control, destination, answer))
        due = self._core.deadline()
        self.due = NEVER if due is None else due

    def persist(self) -> None:
        """Commit the notes; then make a checkpoint, which replaces them, if the server is idle."""
        self._committed_notes.append(self.core.server.notes)
        self.core.server.forget_notes()
        if self.core.is_idle:  # a server does not wait for the end of a move, which may take long
            self._checkpoint = dict(self.core.checkpoint())
            self._committed_notes.clear()

    def recover(self, notes: bytes) -> None:
        """Restart after a kill from the checkpoint and all notes since; the caller has reset the arrays.

        `notes` are those that the server had not committed: a kill loses none of them here.
        """
        self._core = None
        self._committed_notes.append(notes)
        if not self._checkpoint:
            self._state_ops.release_to_switch(self.store, self._initial_switch_keys)
        self.core.recover(self._checkpoint, self._committed_notes)
