"""A pipeline with queues in virtual time: each packet leaves at the ns at which it may."""

from __future__ import annotations

from nativekit.plain import plain
from softswitch.pipeline import BufferedPipeline, QueueDepths, WaitingPacket
from softswitch.queues import fifo
from softswitch.queues.shape import Depth, Rate, Shape
from softswitch.queues.state import NEVER, NONE, make_queues
from switch_harness import ecn

PORTS, PRIORITIES = 11, 8
IN, OUT = 1, 2
NS_PER_US = 1_000
_put, _take, _next = plain(fifo.put), plain(fifo.take), plain(fifo.next_departure)


class QueuedSwitch:
    """A pipeline with ports 0 to 10, all of one shape. Times are in ns."""

    def __init__(self, pipeline: BufferedPipeline, rate: Rate, depth: Depth) -> None:
        self.pipeline = pipeline
        self.queues = make_queues([Shape(rate, depth)] * PORTS, PRIORITIES)
        self._waiting: dict[int, WaitingPacket] = {}
        self.left: list[tuple[int, bytes]] = []
        """Time and frame of all that has left."""

    def send(self, now: int, *frames: bytes, port: int = IN) -> None:
        self.run(now)
        for frame in frames:
            self._queue(self.pipeline.enter(port, frame, now // NS_PER_US, now // NS_PER_US).waiting, now)
            self.run(now)

    def run(self, until: int = NEVER - 1) -> None:
        while (now := _next(self.queues)) <= until:
            slot = self.queues.slots[s := _take(self.queues, now)]
            depths = QueueDepths(int(slot.enq_qdepth), int(slot.deq_qdepth))
            outputs, waiting = self.pipeline.leave(self._waiting.pop(s), depths, int(now) // NS_PER_US)
            self.left += [(int(now), output.frame) for output in outputs]
            self._queue(waiting, now)

    def _queue(self, waiting: list[WaitingPacket], now: int) -> None:
        for packet in waiting:
            s = _put(self.queues, packet.port, packet.priority, packet.length, now)
            if s != NONE:
                self._waiting[s] = packet

    def dropped(self) -> int:
        return int(self.queues.queues[OUT]["dropped"].sum())

    def probes(self) -> list[ecn.Probe]:
        return [ecn.read(frame) for _, frame in self.left]
