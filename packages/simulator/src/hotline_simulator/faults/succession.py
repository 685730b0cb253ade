"""A worker of a simulated testbed that takes the rank of a killed one, and ends its push.

The state machine is that of real workers (`hosts.succession`). Meanwhile the worker acts outside of the
world's loop, and its row of the world is still that of the killed worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol import addressing, frames
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import HOTLINE_PORT, PS_MASK, unpack
from foundation.protocol.rpc import PUSH
from hosts.in_flight import InFlight
from hosts.keys import KeySpace
from hosts.ledger import Ledger, UnfinishedPush
from hosts.replay import ReplayLog
from hosts.succession import RETRANSMISSION_S, PredecessorPush
from hotline_agents.interface import NEVER
from hotline_agents.worker.client import ClientState
from hotline_agents.worker.window import RequestState

_RETRANSMISSION_NS = round(RETRANSMISSION_S * 1e9)


class Killed(NamedTuple):
    """The files that a killed worker has left, as arrays in memory."""

    push: UnfinishedPush | None
    sent: InFlight
    log: ReplayLog | None

    @classmethod
    def of_client(
        cls, state: ClientState, is_pushing: bool, space: KeySpace, log: ReplayLog | None
    ) -> Killed:
        """`is_pushing`: the operation under way is a push, and not one of a part of the replay log."""
        push = None
        n = int(state.header.n_keys)
        if is_pushing and state.header.op == PUSH:
            positions = state.positions[:n]
            ledger = Ledger(int(state.header.job), int(state.header.epoch), space, max(n, 1))
            ledger.open(positions, state.deltas[: space.count_values(positions)])[:] = state.answered[:n]
            push = ledger.unfinished_push
        in_flight = cast(RequestState, state).in_flight  # as all designs have whose workers have successors
        return cls(push, InFlight(in_flight.copy(), state.sent.copy()), log)


class SuccessorHost:
    """Worker `w`, from 0, while it ends the push of a killed one: an `ExternalWorker`."""

    def __init__(
        self, arm: Arm, w: int, killed: Killed, space: KeySpace, send: Callable[[int, bytes], None]
    ) -> None:
        self._w, self._send = w, send
        self._peer = addressing.service if design(arm.design).has_services else addressing.server
        self.ending = PredecessorPush(killed.push, killed.sent, space, killed.log)
        worker = addressing.worker(w + 1)
        self._source = UdpEndpoint(worker.mac, worker.address, addressing.worker_udp_port(arm.job))
        self.due = 0
        self.is_interrupted = False
        """Whether the switch was lost meanwhile, so that requests may have no answer any more."""

    @property
    def is_done(self) -> bool:
        return self.is_interrupted or not self.ending.requests

    def interrupt(self) -> None:
        self.is_interrupted, self.due = True, NEVER

    def receive(self, frame: bytes) -> None:
        self.ending.receive(frames.parse(frame).payload)

    def wake(self, now: int) -> None:
        self.due = NEVER if self.is_done else now + _RETRANSMISSION_NS
        for datagram in self.ending.requests.values():
            server = self._peer((unpack(datagram).ps & PS_MASK) + 1)
            destination = UdpEndpoint(server.mac, server.address, HOTLINE_PORT)
            self._send(self._w, frames.build(UdpFrame(self._source, destination, datagram)))
