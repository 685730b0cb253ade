"""Agents that add up dense vectors, over a network that loses, doubles and reorders."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import Design
from foundation.protocol.codec import Caller
from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hosts.keys import KeySpace
from hotline_agents.designs import agents_of
from hotline_agents.interface import NO_REPLY, NOTHING, Agents
from hotline_agents.worker.ops import AnyWorkerOps, plain_ops
from hotline_allreduce.dense.client import DenseClient
from hotline_allreduce.dense.packet import DensePacket, parse
from nativekit.plain import plain
from packages.allreduce.tests.harness.loop import VectorLoop

Datagram = tuple[int, int, bytes]  # source and peer: servers come first, then workers


class DenseTestbed(VectorLoop[Datagram]):
    """Workers, servers (plain Python unless `ops` is given), and the datagrams between them."""

    def __init__(
        self, design: Design, workers: int, servers: int = 1, *, values: int = 300, window: int = 4,
        chunk_size: int = 64, seed: int = 1, faults: float = 0.0,
        ops: AnyWorkerOps | None = None,
    ) -> None:  # fmt: skip
        super().__init__(Random(seed), loss=faults, doubling=faults / 2, extra=2, reordering=faults)
        self.n_ps = servers
        [arm, *_], space = design.arms, KeySpace(values)
        agents: Agents[DenseClient, Any, Any, Any] = cast(Any, agents_of(design))
        ops = ops or plain_ops()
        self.clients = [
            agents.client(caller, servers, space, lambda: self.now, window, ops=ops)
            for caller in [Caller(arm.job, w + 1, 1) for w in range(workers)]
        ]
        for client in self.clients:
            client.chunk_size = chunk_size
            if faults:  # which may delay a packet for longer
                client.state.header.stall_timeout *= 100
        self.servers = [agents.server(ps, servers, space, [arm.job], 0) for ps in range(servers)]
        half: Any = import_module((design.agents or "").partition(":")[0]).SERVER
        self._server = {name: plain(getattr(half, name)) for name in ("handle", "transmit", "octets", "peer")}
        self.sent: list[tuple[int, int, DensePacket]] = []
        """Source, peer and packet; servers come first, then workers."""

    def cores(self) -> Sequence[DenseClient]:
        return self.clients

    def all_reduce(self, vectors: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Add up one vector of each worker; return copies of the results."""
        self.add_up(
            (client, vector, len(vectors)) for client, vector in zip(self.clients, vectors, strict=True)
        )
        return [client.result.copy() for client in self.clients]

    def emit(self, sender: int, datagram: bytes, peer: int) -> None:
        self._send(self.n_ps + sender, peer, datagram)

    def arrive(self, message: Datagram) -> None:
        source, peer, datagram = message
        if peer >= self.n_ps:
            self.clients[peer - self.n_ps].receive(datagram, self.now, self.now)
        else:
            self._serve(peer, source, datagram)

    def _serve(self, ps: int, source: int, datagram: bytes) -> None:
        server, boxes = self.servers[ps], rpcs(2)
        boxes.view(np.uint8)[: len(datagram)] = np.frombuffer(datagram, np.uint8)
        length = self._server["handle"](server, boxes[0], len(datagram), self.now, boxes[1])
        if length != NO_REPLY:
            self._send(ps, source, _octets(boxes[1], length))
        while (s := self._server["transmit"](server, self.now)) != NOTHING:
            out = _octets(server.sent[s], self._server["octets"](server, s))
            self._send(ps, self._server["peer"](server, s), out)

    def _send(self, source: int, peer: int, datagram: bytes) -> None:
        self.sent.append((source, peer, parse(datagram)))
        self.put((source, peer, datagram))


def _octets(rpc: Any, length: int) -> bytes:
    whole: bytes = rpc.tobytes()
    assert len(whole) == BUFFER_BYTES and length > 0
    return whole[:length]


def integers(random: Random, n: int) -> NDArray[np.int32]:
    return np.array([random.getrandbits(32) - 2**31 for _ in range(n)], np.int32)


def total(vectors: Sequence[NDArray[np.int32]]) -> list[int]:
    with np.errstate(over="ignore"):
        return cast(list[int], np.sum(vectors, axis=0, dtype=np.int32).tolist())
