"""Compiled generator and sink in one thread: sends paced frames and receives between sends.

A frame carries its number, the port that it has to leave by and its send time (CLOCK_REALTIME, ns); its
latency ends where the kernel has put it into a sink's ring, so it includes no wake-up of the sink.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import carray, compiled, int64
from nativekit.libc import MMSGHDR, clock_gettime, nanosleep, sched_yield, sendmmsg
from nativekit.memory import load_acquire, pointer, store_release
from softswitch.native import entry_point
from softswitch.ports.layout import BURST
from softswitch.ports.sockets import TP_STATUS_KERNEL, TP_STATUS_USER, TPACKET2_HDR, PortSocket
from switch_bench.workload import (
    EGRESS_BYTES,
    FIRST_SEQ,
    MAX_RUN,
    RUN_BYTES,
    SEQ_BYTES,
    T0_BYTES,
    Workload,
)

_MMSGHDR_BYTES = MMSGHDR.itemsize
_IOVEC_BYTES = 16
_CLOCK_REALTIME, _CLOCK_MONOTONIC = 0, 1  # of clock_gettime(2)
_QUIET_NS = 100_000_000  # if no frame is sent or received for so long, missing frames count as lost
_MAX_DRAIN_NS = 60_000_000_000
_SPIN_NS = 25_000  # at shorter intervals the generator spins
_PAUSE_NS = 5_000
_MAX_LATENCY_NS = 0x7FFFFFFF  # an int32
_MAX_SINKS = 64
_NOT_RECEIVED = -1
NO_WINDOW = 1 << 40
"""Window that is never full: sending does not wait for frames to be received."""
UNLIMITED_BURST = 1 << 40

# `ring` is the address of the slots, `slots` their number, `head` the number of frames received so far.
_SINK = np.dtype([("port", "i8"), ("ring", "i8"), ("slots", "i8"), ("slot_size", "i8"), ("head", "i8")])
_TRAFFIC = np.dtype(
    [
        ("fd", "i8"),
        ("sinks", _SINK, (_MAX_SINKS,)),
        ("sink_count", "i8"),
        ("messages", "i8"),  # address of an array of struct mmsghdr, one for each template
        ("templates", "i8"),  # address of the frames, one after another
        ("template_count", "i8"),
        ("frame_bytes", "i8"),
        ("run", "i8"),
        ("run_at", "i8"),  # byte offsets in a frame, as in `Stamp`
        ("seq_at", "i8"),
        ("egress_at", "i8"),
        ("t0_at", "i8"),
        ("interval_ns", "f8"),
        ("window", "i8"),
        ("max_burst", "i8"),
        ("misrouted", "i8"),
        ("clock", "i8", (2,)),  # a struct timespec
    ]
)
Traffic = Any  # a _TRAFFIC record
Sink = Any  # a _SINK record


class Trial(NamedTuple):
    sent: int
    received: int
    misrouted: int  # frames from another port than their stamp's
    rate: float  # frames sent a second
    latencies_us: NDArray[np.float64]  # [received]

    @property
    def lost(self) -> int:
        """Number of frames that were not received from the port in their stamp."""
        return self.sent - self.received

    def percentile(self, percent: float) -> float:
        """Return a percentile, 0 to 100, of the one-way latency in µs."""
        return float(np.percentile(self.latencies_us, percent)) if self.received else float("nan")


class Generator:
    """Sends by `source` and receives by `sinks`: sockets on the hosts' interfaces, by port number."""

    def __init__(self, source: PortSocket, sinks: Mapping[int, PortSocket]) -> None:
        self._sockets = (source, *sinks.values())
        self.workload = ""
        """Name of the workload that was loaded last."""
        self._traffic = traffic = np.zeros(1, _TRAFFIC)[0]
        traffic["fd"], traffic["sink_count"] = source.sender.fileno(), len(sinks)
        for record, (port, sink) in zip(traffic["sinks"], sinks.items(), strict=False):
            record["port"], record["ring"] = port, sink.address
            record["slots"], record["slot_size"] = sink.slots, sink.slot_size

    def load(self, workload: Workload) -> None:
        traffic, self.workload = self._traffic, workload.name
        self._frames = np.array([bytearray(frame) for frame in workload.frames], np.uint8)
        count, size = self._frames.shape
        self._vectors = np.empty((count, 2), np.int64)
        self._vectors[:, 0] = self._frames.ctypes.data + np.arange(count) * size
        self._vectors[:, 1] = size
        self._messages = np.zeros(count, MMSGHDR)
        self._messages["msg_iov"] = self._vectors.ctypes.data + _IOVEC_BYTES * np.arange(count)
        self._messages["msg_iovlen"] = 1
        traffic["messages"], traffic["templates"] = self._messages.ctypes.data, self._frames.ctypes.data
        traffic["template_count"], traffic["frame_bytes"] = count, size
        for name, offset in workload.stamp._asdict().items():
            traffic[f"{name}_at"] = offset

    def run(
        self, count: int, rate: float, window: int = NO_WINDOW, max_burst: int = UNLIMITED_BURST
    ) -> Trial:
        """Send `count` frames at `rate`/s, with at most `window` frames in flight.

        A generator that did not have its core catches up with at most `max_burst` frames at once, and sends
        the others later.
        """
        traffic = self._traffic
        latencies = np.full(count, _NOT_RECEIVED, np.int32)
        traffic["run"] = traffic["run"] % MAX_RUN + 1
        traffic["interval_ns"], traffic["window"] = 1e9 / rate, window
        traffic["max_burst"] = max_burst
        traffic["misrouted"] = 0
        elapsed_ns = exchange(traffic, latencies)
        arrived = latencies[latencies != _NOT_RECEIVED]
        return Trial(count, len(arrived), int(traffic["misrouted"]), count / elapsed_ns * 1e9, arrived / 1e3)

    def drain(self, quiet_seconds: float) -> None:
        """Drop frames of earlier runs until none has come for so long, at most for a minute.

        A slow switch may have a thousand.
        """
        drop_until_quiet(self._traffic, np.empty(0, np.int32), round(quiet_seconds * 1e9))


@compiled
def now_ns(traffic: Traffic, clock: int) -> int:
    timespec = traffic.clock
    clock_gettime(clock, timespec.ctypes.data)
    ns: int = timespec[0] * 1_000_000_000 + timespec[1]
    return ns


@compiled
def write_number(frame: NDArray[np.uint8], offset: int, size: int, value: int) -> None:
    """Write a number of `size` bytes in network order."""
    for k in range(size):
        frame[offset + k] = (value >> (8 * (size - 1 - k))) & 0xFF


@compiled
def read_number(frame: NDArray[np.uint8], offset: int, size: int) -> int:
    """Read a number of `size` bytes in network order."""
    value: int = int64(0)
    for k in range(size):
        value = (value << 8) | frame[offset + k]
    return value


@compiled
def send_some(traffic: Traffic, first: int, count: int) -> int:
    """Send up to `count` frames in one call; `first` is the number of the first one in this run."""
    template = first % traffic.template_count
    count = min(count, BURST, traffic.template_count - template)
    t0 = now_ns(traffic, _CLOCK_REALTIME)
    for k in range(count):
        address = traffic.templates + (template + k) * traffic.frame_bytes
        frame = carray(pointer(address), traffic.frame_bytes, np.uint8)
        write_number(frame, traffic.run_at, RUN_BYTES, traffic.run)
        write_number(frame, traffic.seq_at, SEQ_BYTES, FIRST_SEQ + first + k)
        write_number(frame, traffic.t0_at, T0_BYTES, t0)
    sent: int = sendmmsg(traffic.fd, traffic.messages + template * _MMSGHDR_BYTES, count, 0)
    return max(0, sent)


@compiled
def receive_from(traffic: Traffic, sink: Sink, latencies: NDArray[np.int32]) -> int:
    """Record the latency (ns) of each frame of this run in a sink's ring; return their number."""
    received = 0
    while True:
        slot = sink.ring + sink.head % sink.slots * sink.slot_size
        if load_acquire(slot) & TP_STATUS_USER == 0:
            return received
        header = carray(pointer(slot), 1, TPACKET2_HDR)[0]
        if header.tp_snaplen >= traffic.t0_at + T0_BYTES:
            frame = carray(pointer(slot + header.tp_mac), header.tp_snaplen, np.uint8)
            index = read_number(frame, traffic.seq_at, SEQ_BYTES) - FIRST_SEQ
            run = read_number(frame, traffic.run_at, RUN_BYTES)
            is_of_run = run == traffic.run and 0 <= index < len(latencies)
            if is_of_run and read_number(frame, traffic.egress_at, EGRESS_BYTES) != sink.port:
                traffic.misrouted += 1
            elif is_of_run and latencies[index] == _NOT_RECEIVED:
                arrival = int64(header.tp_sec) * 1_000_000_000 + int64(header.tp_nsec)
                latency = arrival - read_number(frame, traffic.t0_at, T0_BYTES)
                latencies[index] = min(max(0, latency), _MAX_LATENCY_NS)
                received += 1
        store_release(slot, TP_STATUS_KERNEL)
        sink.head += 1


@compiled
def pause(traffic: Traffic) -> None:
    timespec = traffic.clock
    timespec[0], timespec[1] = 0, _PAUSE_NS
    nanosleep(timespec.ctypes.data, 0)


@compiled
def pace(elapsed_ns: int, interval_ns: float, sent: int, max_burst: int) -> tuple[int, int]:
    """Return how many frames are due since the start, and by how many ns the start moves for being late."""
    due = 1 + int64(elapsed_ns / interval_ns)
    excess = max(0, due - sent - max_burst)
    return due - excess, int64(excess * interval_ns)


@entry_point
def exchange(traffic: Traffic, latencies: NDArray[np.int32]) -> int:
    """Send a frame for each latency and receive; return the time in ns from the first send to the last."""
    begin = now_ns(traffic, _CLOCK_MONOTONIC)
    start = begin  # of the schedule, which moves if the generator is late
    sent, received = int64(0), int64(0)
    last_send = last_activity = begin
    while received < len(latencies):
        now = now_ns(traffic, _CLOCK_MONOTONIC)
        paced, lateness = pace(now - start, traffic.interval_ns, sent, traffic.max_burst)
        start += lateness
        due = min(len(latencies), paced, received + traffic.window)
        if sent < due:
            sent += send_some(traffic, sent, due - sent)
            last_send = last_activity = now
        newly_received = int64(0)
        for k in range(traffic.sink_count):
            newly_received += receive_from(traffic, traffic.sinks[k], latencies)
        if newly_received:
            received += newly_received
            last_activity = now
        elif traffic.interval_ns > _SPIN_NS:
            pause(traffic)
        else:
            sched_yield()  # BMv2 has more threads than there are cores
        if now - last_activity > _QUIET_NS:
            break
    return max(1, last_send - begin)


@entry_point
def drop_until_quiet(traffic: Traffic, no_latencies: NDArray[np.int32], quiet_ns: int) -> None:
    now = now_ns(traffic, _CLOCK_MONOTONIC)
    end, last_activity = now + _MAX_DRAIN_NS, now
    while now - last_activity < quiet_ns and now < end:
        for k in range(traffic.sink_count):
            head = int64(traffic.sinks[k].head)
            receive_from(traffic, traffic.sinks[k], no_latencies)
            if traffic.sinks[k].head != head:
                last_activity = now
        pause(traffic)
        now = now_ns(traffic, _CLOCK_MONOTONIC)
