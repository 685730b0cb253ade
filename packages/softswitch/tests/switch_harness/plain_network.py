"""A network of interpreted switches in plain Python, with which the compiled event loop is compared."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from softswitch.network.link import LinkOptions
from softswitch.pipeline import BufferedPipeline, QueueDepths, WaitingPacket

_NS_PER_US = _PS_PER_NS = 1000


class PlainEnd(NamedTuple):
    """A host by its name, or the port of a switch."""

    node: str
    port: int = 0


class Delivery(NamedTuple):
    time: int  # ns
    host: str
    frame: bytes


class PlainNetwork:
    """Links, and switches by name; every other node is a host. Frames are lost in full queues only."""

    def __init__(
        self,
        links: Sequence[tuple[PlainEnd, PlainEnd, LinkOptions]],
        switches: Mapping[str, BufferedPipeline],
    ) -> None:
        self._switches = switches
        self._ends = [end for first, second, _ in links for end in (first, second)]
        self._options = [options for *_, options in links for _ in range(2)]
        self._interfaces = {end: i for i, end in enumerate(self._ends)}
        self._free_at = [0] * len(self._ends)
        self._queues: list[deque[tuple[int, WaitingPacket]]] = [deque() for _ in self._ends]
        self._scheduled = [False] * len(self._ends)
        self._ready: list[int] = []
        self._events: list[
            tuple[int, int, int, bytes | None]
        ] = []  # time, order, interface, frame that arrives
        self._order = count()
        self.deliveries: list[Delivery] = []
        self.dropped = 0

    def run(self, sent: Iterable[tuple[int, str, bytes]]) -> list[Delivery]:
        """Send frames at times in ns from hosts, and return what hosts receive."""
        starts = sorted(sent, key=lambda each: each[0])
        while starts or self._events:
            if starts and (not self._events or starts[0][0] <= self._events[0][0]):
                now, host, frame = starts.pop(0)
                self._enqueue(self._interfaces[PlainEnd(host)], WaitingPacket(0, 0, len(frame), frame), now)
            else:
                now, _, i, arriving = heapq.heappop(self._events)
                if arriving is None:
                    self._depart(i, now)
                else:
                    self._arrive(i, arriving, now)
            while self._ready:
                self._depart(self._ready.pop(), now)
        return self.deliveries

    def _arrive(self, i: int, frame: bytes, now: int) -> None:
        node, port = self._ends[i]
        if node not in self._switches:
            self.deliveries.append(Delivery(now, node, frame))
            return
        result = self._switches[node].enter(port, frame, now // _NS_PER_US, now // _NS_PER_US)
        self._take(node, result.waiting, now)

    def _take(self, node: str, waiting: Iterable[WaitingPacket], now: int) -> None:
        for packet in waiting:
            if (end := PlainEnd(node, packet.port)) in self._interfaces:
                self._enqueue(self._interfaces[end], packet, now)

    def _enqueue(self, i: int, packet: WaitingPacket, now: int) -> None:
        if len(self._queues[i]) == self._options[i].queue_frames:
            self.dropped += 1
            return
        self._queues[i].append((len(self._queues[i]), packet))
        self._schedule(i, now)

    def _schedule(self, i: int, now: int) -> None:
        if self._scheduled[i] or not self._queues[i]:
            return
        self._scheduled[i] = True
        if self._free_at[i] <= now:
            self._ready.append(i)
        else:
            heapq.heappush(self._events, (self._free_at[i], next(self._order), i, None))

    def _depart(self, i: int, now: int) -> None:
        self._scheduled[i] = False
        enq_depth, packet = self._queues[i].popleft()
        node, _ = self._ends[i]
        if node in self._switches:
            depths = QueueDepths(enq_depth, len(self._queues[i]))
            result = self._switches[node].leave(packet, depths, now // _NS_PER_US)
            for output in result.outputs:
                self._send(self._interfaces[PlainEnd(node, output.port)], output.frame, now)
            self._take(node, result.waiting, now)
        else:
            assert isinstance(packet.packet, bytes)
            self._send(i, packet.packet, now)
        self._schedule(i, now)

    def _send(self, i: int, frame: bytes, now: int) -> None:
        options = self._options[i]
        wire_bytes = len(frame) + options.overhead_bytes
        self._free_at[i] = (
            max(self._free_at[i], now) + wire_bytes * options.picoseconds_per_byte // _PS_PER_NS
        )
        arrival = self._free_at[i] + round(options.delay_us * _NS_PER_US)
        heapq.heappush(self._events, (arrival, next(self._order), i ^ 1, frame))
