"""Watch a server: attach the BPF programs, and collect the events of its sockets and its CPU time."""

from __future__ import annotations

import mmap
import socket
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np
from numpy.typing import NDArray

from hosts.sockets import SO_TIMESTAMPNS, StampClock
from hotline_answers.probe import builder
from hotline_answers.probe.builder import EVENT, INET, INET6, PROCESS_BITS
from hotline_answers.probe.contention import ContentionWatch, WatchedSecond
from hotline_answers.probe.processes import MAX_PID, MAX_PORT, ServedPort, ServerProcesses, served_ports
from hotline_answers.probe.programs import compiled_programs
from hotline_answers.probe.requests import UNKNOWN, SocketEvents
from softswitch.kernel import bpf
from softswitch.kernel.assembler import insert_map_descriptors
from softswitch.kernel.btf import Btf
from softswitch.kernel.ring import RingBuffer

RING_BYTES = 1 << 21
"""Bytes of the events that wait for this process: some 32,000. A larger buffer would not stay in caches, and
cost the server more for each event."""
MAX_EVENTS = 8_000_000
"""Events after which a watch ends; they and their evaluation take about 1 GB of this process's memory."""
_MAX_UDP_SOCKETS = 1 << 10
_MAPPED = bytes(10) + b"\xff\xff"  # prefix of an address of IPv4 in one of IPv6
_FLOW = ("is_tcp", "sock", "peer", "peer_port", "family", "local_port")
_FLOW_KEY = np.dtype([(name, EVENT.fields[name][0]) for name in _FLOW])  # type: ignore[index]  # it has fields


def _map_shapes() -> dict[int, tuple[int, int, int, int, int]]:
    """Return type, bytes of keys and values, number of elements and flags of each map."""
    return {
        builder.PROCESSES: (bpf.ARRAY, 4, 4, MAX_PID // PROCESS_BITS + 1, 0),
        builder.PORTS: (bpf.ARRAY, 4, 4, MAX_PORT + 1, 0),
        builder.RING: (bpf.RINGBUF, 0, 0, RING_BYTES, 0),
        builder.LOST: (bpf.ARRAY, 4, 8, 1, bpf.MMAPABLE),
        builder.SEGMENTS: (bpf.PERCPU_ARRAY, 4, builder.SEGMENT_BYTES, 1, 0),
        builder.FRAMES: (bpf.PERCPU_ARRAY, 4, builder.PEER_BYTES, 1, 0),
        builder.QUEUES: (bpf.HASH, 8, builder.QUEUE_BYTES, _MAX_UDP_SOCKETS, 0),
        builder.NEW_QUEUE: (bpf.ARRAY, 4, builder.QUEUE_BYTES, 1, 0),
    }


class SocketProbe:
    """The attached programs, which write events of watched processes until `close`; raises KernelError."""

    def __init__(self, served: Iterable[ServedPort]) -> None:
        protocols = {port.is_tcp for port in served}
        with ExitStack() as stack:
            code_of = compiled_programs(Btf(), protocols)
            maps = {name: bpf.create_map(*shape) for name, shape in _map_shapes().items()}
            stack.callback(bpf.close, *maps.values())
            self._processes, self._watched_bits = maps[builder.PROCESSES], Counter[int]()
            self._ring = RingBuffer(maps[builder.RING], RING_BYTES)
            stack.callback(self._ring.close)
            self._lost = mmap.mmap(maps[builder.LOST], mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
            stack.callback(self._lost.close)
            for port in served:
                if not port.is_tcp:
                    bpf.store(maps[builder.PORTS], port.port, 1)
            if True in protocols:
                # While any socket asks for it, the kernel stamps what it receives with the time of arrival.
                stamping = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                stamping.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            for name, (code, hook) in code_of.items():
                program = bpf.load(bpf.TRACING, insert_map_descriptors(code, maps), name, hook)
                stack.callback(bpf.close, program)
                stack.callback(bpf.close, bpf.attach_tracing(program, hook, name))
            self._resources = stack.pop_all()

    @property
    def lost_events(self) -> int:
        return int.from_bytes(self._lost[:8], "little")

    def watch(self, pids: Sequence[int]) -> None:
        for pid in pids:
            element, place = divmod(pid, PROCESS_BITS)
            self._watched_bits[element] |= 1 << place
            bpf.store(self._processes, element, self._watched_bits[element])

    def take(self) -> NDArray[np.void]:
        """Return the events since the last call, of type `EVENT`."""
        return self._ring.take_array(EVENT)

    def close(self) -> None:
        self._resources.close()


@dataclass(frozen=True, slots=True)
class SocketFlow:
    """A connection of TCP, or the datagrams between a socket of UDP and one peer."""

    served: ServedPort
    address: str | None
    """The peer's; None for all peers of a socket of UDP that were not seen."""
    port: int


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """The requests, bytes, connections and CPU time of a server while it was watched."""

    seconds: float
    processes: int
    cpu_ns: int
    flows: Sequence[SocketFlow]
    events: SocketEvents
    clock_offset_ns: int
    """Unix time minus the monotonic clock."""
    lost_events: int
    contention: Sequence[WatchedSecond] = ()


class ServerWatch:
    """A watch of some processes and their descendants, from `__init__` to `finish`; raises KernelError.

    Call `poll` several times a second, before the ring buffer is full. Sockets count at ports at which the
    processes serve when the watch begins; `port` restricts them to one.
    """

    def __init__(self, pids: Sequence[int], port: int | None = None) -> None:
        self._clock = StampClock()
        self._clock_offset_ns = self._clock.offset_ns
        self.served = served_ports(ServerProcesses(tuple(pids)).pids, port)
        self._probe = SocketProbe(self.served)
        try:
            self.processes = ServerProcesses(tuple(pids))
            self._probe.watch(self.processes.pids)
            self._contention = ContentionWatch(self.processes)
            self._start_ns = time.monotonic_ns()
        except BaseException:
            self._probe.close()
            raise
        self._flow_numbers: dict[bytes, int] = {}
        self._parts: list[SocketEvents] = []
        self.count = 0
        """Number of events so far."""

    def poll(self) -> None:
        """Collect events, and look for new children."""
        self.processes.refresh()
        self._probe.watch(self.processes.added)
        self._contention.poll()
        self._take()

    def finish(self) -> WatchedServer:
        """Collect what remains, and detach the programs."""
        self.processes.refresh()
        seconds = (time.monotonic_ns() - self._start_ns) / 1e9
        self._take()
        lost_events = self._probe.lost_events
        contention = self._contention.finish()
        self.close()
        flows = [_flow_of(key) for key in self._flow_numbers]
        events = SocketEvents(*(np.concatenate(column) for column in zip(*self._parts, strict=True)))
        # A flow that is only written to has no requests: the process may be a client in it.
        has_reads = np.bincount(events.flow[~events.is_write], minlength=len(flows)) > 0
        is_served = has_reads & np.array([flow.served in self.served for flow in flows], bool)
        return WatchedServer(
            seconds,
            len(self.processes.pids),
            self.processes.cpu_ns,
            flows,
            events.select(is_served[events.flow]),
            self._clock_offset_ns,
            lost_events,
            contention,
        )

    def close(self) -> None:
        self._probe.close()

    def _take(self) -> None:
        records = self._probe.take()
        arrived_ns, is_tcp = records["arrived_ns"], records["is_tcp"] != 0
        # Arrivals over TCP are in Unix time, which may have been set since the last call.
        self._clock.measure()
        tcp_ns = np.maximum(arrived_ns - self._clock.offset_ns, self._clock.offset_since_ns)
        monotonic_ns = np.where(is_tcp, np.minimum(tcp_ns, records["time_ns"]), arrived_ns)
        part = SocketEvents(
            flow=self._number_flows(records),
            time_ns=records["time_ns"],
            arrived_ns=np.where(arrived_ns == 0, UNKNOWN, monotonic_ns),
            size=records["bytes"].astype(np.int64),
            is_write=records["is_write"] != 0,
            is_tcp=is_tcp,
        )
        self._parts.append(part)
        self.count += len(records)

    def _number_flows(self, records: NDArray[np.void]) -> NDArray[np.int64]:
        keys = np.zeros(len(records), _FLOW_KEY)
        for name in _FLOW:
            keys[name] = records[name]
        raw_keys, flow_of_record = np.unique(keys.view(f"V{_FLOW_KEY.itemsize}"), return_inverse=True)
        numbers = [
            self._flow_numbers.setdefault(_normalise(key.tobytes()), len(self._flow_numbers))
            for key in raw_keys
        ]
        return np.array(numbers, np.int64)[flow_of_record]


def _normalise(raw_key: bytes) -> bytes:
    """Return a key of a flow in which an IPv6 address that stands for one of IPv4 is that of IPv4."""
    key = np.frombuffer(raw_key, _FLOW_KEY).copy()
    peer = key["peer"][0].tobytes()
    if key["family"][0] == INET6 and peer.startswith(_MAPPED):
        key["family"] = INET
        key["peer"] = np.void(peer[len(_MAPPED) :].ljust(16, b"\0"))
    return key.tobytes()


def _flow_of(raw_key: bytes) -> SocketFlow:
    key = np.frombuffer(raw_key, _FLOW_KEY)[0]
    peer = key["peer"].tobytes()
    served = ServedPort(bool(key["is_tcp"]), int(key["local_port"]))
    address: IPv4Address | IPv6Address | None = None
    if key["family"] == INET:
        address = IPv4Address(peer[:4])
    elif key["family"] == INET6:
        address = IPv6Address(peer)
    return SocketFlow(served, None if address is None else str(address), int(key["peer_port"]))
