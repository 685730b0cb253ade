"""A testbed on which every second worker and the first server are of Scapy, and the others compiled.

So two implementations of the protocol meet in one schedule. Agents of Scapy act in no simulated time, and do
not come back after a kill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scapy.packet import Packet

from experiment.run_config import EPOCH
from foundation.designs.interface import Arm
from foundation.protocol import addressing, frames
from foundation.protocol.addressing import Endpoint
from foundation.protocol.codec import Keys, Values
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import HOTLINE_PORT
from foundation.protocol.rows import ONE_VALUE, RowRanges
from foundation.protocol.rpc import PULL
from hosts.scapy import is_scapy_server, is_scapy_worker
from hosts.scapy.packets import Address, datagram_of, destination_of, packet_of, source_of
from hosts.scapy.rows import split_rows, zeros
from hosts.scapy.server import ScapyServer
from hosts.scapy.worker import ScapyWorker
from hotline_agents.interface import NEVER
from hotline_simulator.faults.operations import (
    IDLE,
    KEYS,
    OPERATIONS,
    begin_external_operation,
    end_external_operation,
)
from hotline_simulator.faults.schedule import SERVERS, WORKERS, FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.simulated_switch import CompiledConfig

_SERVERS = [addressing.server(number) for number in range(1, SERVERS + 1)]
_SERVICES = [addressing.service(number) for number in range(1, SERVERS + 1)]
_WORKERS = [addressing.worker(number) for number in range(1, WORKERS + 1)]
_MACS = {each.address: each.mac for each in (*_SERVERS, *_SERVICES, *_WORKERS, addressing.controller())}


def _address(endpoint: Endpoint, port: int = HOTLINE_PORT) -> Address:
    return Address(endpoint.address, port)


def _packet(frame: bytes, now: int) -> Packet:
    source, destination, datagram = frames.parse(frame)
    packet = packet_of(datagram, Address(*source[1:]), Address(*destination[1:]))
    packet.time = now
    return packet


def _frame(mac: str, packet: Packet) -> bytes:
    source, destination = source_of(packet), destination_of(packet)
    endpoints = UdpEndpoint(mac, *source), UdpEndpoint(_MACS[destination.ip], *destination)
    return frames.build(UdpFrame(*endpoints, datagram_of(packet)))


class ScapyServerHost:
    """Server `p`: a `ServerHost`."""

    def __init__(self, testbed: SimulatedTestbed, p: int) -> None:
        self._testbed, self.p = testbed, p
        self._agent = testbed.world.agents[WORKERS + p]
        self._waiting: list[bytes] = []  # frames that came while the server stands still
        self.reset()

    def reset(self) -> None:
        job = self._testbed.arm.job
        own_address, service = _address(_SERVERS[self.p]), _address(_SERVICES[self.p])
        ranges = self._testbed.space.key_ranges
        self.server = ScapyServer(self.p, SERVERS, range(KEYS), {job: EPOCH}, own_address, service, ranges)
        self._waiting.clear()
        self._outbox: list[Packet] = []

    @property
    def due(self) -> int:
        due = self.server.deadline()
        return int(self._agent.stalled_until) if self._waiting else NEVER if due is None else due

    def release_initial_keys(self, keys: Sequence[Keys]) -> None:
        [own], store = keys, self.server.stores[self._testbed.arm.job]
        if self._testbed.has_switch_parameters:
            for key in filter(store.is_owned, own.tolist()):
                store.give(key)

    def receive(self, frame: bytes) -> None:
        if self._agent.stalled_until > self._testbed.now:
            self._waiting.append(frame)
            self._agent.waiting = len(self._waiting)
            return
        now = self._testbed.now
        self._outbox += self.server.handle(_packet(frame, now), now)

    def wake(self, now: int) -> None:
        if self._agent.stalled_until > now:
            return
        frames, self._waiting, self._agent.waiting = self._waiting, [], 0
        for frame in frames:
            self.receive(frame)
        self._outbox += self.server.wake(now)

    def frames_to_send(self) -> Iterator[bytes]:
        packets, self._outbox = self._outbox, []
        for packet in packets:
            yield _frame(_SERVERS[self.p].mac, packet)

    def sums(self) -> tuple[Keys, Values]:
        rows = self.server.contents(self._testbed.arm.job, range(KEYS))
        values = [value for _, row, *_ in rows for value in row]
        return np.array([key for key, *_ in rows], np.uint64), np.array(values, np.uint32)


class ScapyWorkerHost:
    """Worker `w`, whose operations are those of a compiled worker with the same random numbers.

    Its row of the world holds the operation's keys and what is answered, where the player looks for them.
    """

    def __init__(self, testbed: MixedTestbed, w: int) -> None:
        self._testbed, self._w = testbed, w

    def reset(self, hints: set[int]) -> None:
        job = self._testbed.arm.job
        own_address = _address(_WORKERS[self._w], addressing.worker_udp_port(job))
        endpoints = _SERVICES if self._testbed.design.has_services else _SERVERS
        self.worker = ScapyWorker(
            job, self._w + 1, EPOCH, own_address, [_address(each) for each in endpoints],
            ranges=self._testbed.space.key_ranges,
        )  # fmt: skip
        self.worker.hints = hints
        self._answered: set[int] = set()
        self._client = self._testbed.network.clients[self._w].state
        self._progress = self._testbed.operations.progress[self._w]

    @property
    def due(self) -> int:
        """Time at which `wake` has something to do, ns; NEVER if the worker is dead."""
        if self._testbed.dead[self._w]:
            return NEVER
        if not self.worker.idle:
            deadline = self.worker.deadline()
            return NEVER if deadline is None else deadline
        is_done = self._testbed.operations.header.is_closing or self._progress.operations == OPERATIONS
        return NEVER if is_done else int(self._progress.due)

    def receive(self, frame: bytes) -> None:
        now = self._testbed.now
        self._send(self.worker.handle(_packet(frame, now), now))
        self._record()

    def wake(self, now: int) -> None:
        self._send(self.worker.wake(now))
        if self.worker.idle and self.due <= now:
            self._begin(now)

    def _begin(self, now: int) -> None:
        testbed, client = self._testbed, self._client
        n = begin_external_operation(testbed.world_ref, testbed.operations_ref, self._w)
        k = int(self._progress.operations)
        keys, self._answered = client.positions[:n].tolist(), set()
        if testbed.operations.history[self._w, k - 1].kind == PULL:
            self._send(self.worker.pull(k, keys, now))
        else:
            dims = testbed.space.dims_at(client.positions[:n])
            rows = split_rows(client.deltas[: dims.sum()].tolist(), dims.tolist())
            deltas = dict(zip(keys, rows, strict=True))
            self._send(self.worker.push(k, deltas, self._answered, now))

    def _record(self) -> None:
        """Write what is answered into the worker's row, and end an operation that has ended."""
        worker, client, testbed = self.worker, self._client, self._testbed
        positions = client.positions[: int(client.header.n_keys)]
        client.answered[: len(positions)] = [key in self._answered for key in positions.tolist()]
        start = 0
        for key, dim in zip(positions.tolist(), testbed.space.dims_at(positions).tolist(), strict=True):
            client.values[start : start + dim] = worker.values.get(key, zeros(dim))
            start += dim
        client.header.rows += len(worker.log)
        worker.log.clear()
        if worker.idle and self._progress.state != IDLE:
            is_reached = end_external_operation(testbed.world_ref, testbed.operations_ref, self._w)
            testbed.is_rpc_target_reached |= bool(is_reached)

    def _send(self, packets: list[Packet]) -> None:
        for packet in packets:
            self._testbed.send(self._w, _frame(_WORKERS[self._w].mac, packet))


class MixedTestbed(SimulatedTestbed):
    def __init__(
        self, arm: Arm, compiled: CompiledConfig | None = None, ranges: RowRanges = ONE_VALUE
    ) -> None:
        super().__init__(arm, compiled, is_external=_is_of_scapy, ranges=ranges)
        self._scapy_workers = {w: ScapyWorkerHost(self, w) for w in range(WORKERS) if _is_of_scapy(w)}
        self.external_workers = dict(self._scapy_workers)
        for p in filter(lambda p: _is_of_scapy(WORKERS + p), range(SERVERS)):
            self.server_hosts[p] = ScapyServerHost(self, p)

    def reset(self, schedule: FaultSchedule, hot_keys: Sequence[int]) -> None:
        super().reset(schedule, hot_keys)
        for worker in self._scapy_workers.values():
            worker.reset(set(hot_keys) if self.has_switch_parameters else set())


def _is_of_scapy(agent: int) -> bool:
    if agent < WORKERS:
        return is_scapy_worker("mixed", agent + 1)
    return is_scapy_server("mixed", agent - WORKERS + 1)
