"""Compiled generator and sink in one thread: sends paced requests and, in between, takes the answers.

A frame carries its send time (CLOCK_REALTIME, ns) as t0, which answers echo; its latency ends where the
kernel has put the answer into the sink's ring, so no wake-up of the sink is in it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hosts.wire.frames import FRAME_OVERHEAD
from hosts.wire.header import WINDOW, offset_of
from softswitch.native import (
    carray,
    clock_gettime,
    compiled,
    entry_point,
    int64,
    load_acquire,
    nanosleep,
    pointer,
    sched_yield,
    sendmmsg,
    store_release,
)
from softswitch.ports.layout import BURST, MMSGHDR
from softswitch.ports.ring import TP_STATUS_KERNEL, TP_STATUS_USER, TPACKET2_HDR, PortSocket

_SEQ = FRAME_OVERHEAD + offset_of("seq")
_T0 = FRAME_OVERHEAD + offset_of("t0")
_EPOCH = FRAME_OVERHEAD + offset_of("epoch")
_MMSGHDR_BYTES = MMSGHDR.itemsize
_REALTIME, _MONOTONIC = 0, 1
_QUIET_NS = 50_000_000
_SPIN_NS = 25_000  # at shorter intervals the generator spins
_PAUSE_NS = 5_000

FIRST_SEQ = WINDOW  # turn 1 of slot 0
OPEN = 1 << 40
"""No limit to the frames that are unanswered: what is sent does not depend on what comes back."""

_TRAFFIC = np.dtype(
    [
        ("fd", "i8"),
        ("ring", "i8"),
        ("slots", "i8"),
        ("slot_size", "i8"),
        ("head", "i8"),
        ("messages", "i8"),  # address of one struct mmsghdr a template
        ("templates", "i8"),
        ("template_count", "i8"),
        ("frame_bytes", "i8"),
        ("first_seq", "i8"),
        ("epoch", "i8"),
        ("interval_ns", "f8"),
        ("window", "i8"),
        ("clock", "i8", (2,)),
    ]
)
Traffic = Any  # a _TRAFFIC record


class Trial(NamedTuple):
    """What one run of paced frames gave."""

    sent: int
    received: int
    rate: float  # frames sent a second
    latencies_us: NDArray[np.float64]  # [received]

    @property
    def lost(self) -> int:
        """Frames that were not answered."""
        return self.sent - self.received

    def percentile(self, q: float) -> float:
        """One-way latency in µs."""
        return float(np.percentile(self.latencies_us, q))


class Generator:
    """Sends and receives on a host's interface. `templates` are requests of one size, at least BURST."""

    def __init__(self, port: PortSocket, templates: list[bytes]) -> None:
        self._port = port
        self._frames = np.array([bytearray(frame) for frame in templates], np.uint8)
        vectors = np.empty((len(templates), 2), np.int64)
        vectors[:, 0] = self._frames.ctypes.data + np.arange(len(templates)) * self._frames.shape[1]
        vectors[:, 1] = self._frames.shape[1]
        self._vectors = vectors
        self._messages = np.zeros(len(templates), MMSGHDR)
        self._messages["msg_iov"] = vectors.ctypes.data + 16 * np.arange(len(templates))
        self._messages["msg_iovlen"] = 1
        traffic = np.zeros(1, _TRAFFIC)[0]
        traffic["fd"], traffic["ring"] = port.fileno(), port.address
        traffic["slots"], traffic["slot_size"] = port.slots, port.slot_size
        traffic["messages"], traffic["templates"] = self._messages.ctypes.data, self._frames.ctypes.data
        traffic["template_count"], traffic["frame_bytes"] = self._frames.shape
        self._traffic = traffic

    def run(self, count: int, rate: float, epoch: int, window: int = OPEN) -> Trial:
        """Send `count` frames at `rate`/s, but never with more than `window` unanswered."""
        latencies = np.full(count, -1, np.int64)
        self._traffic["epoch"], self._traffic["first_seq"] = epoch, FIRST_SEQ
        self._traffic["interval_ns"], self._traffic["window"] = 1e9 / rate, window
        elapsed_ns = exchange(self._traffic, latencies)
        answered = latencies[latencies >= 0]
        return Trial(count, len(answered), count / elapsed_ns * 1e9, answered / 1e3)


@compiled
def now_ns(traffic: Traffic, clock: int) -> int:
    """Read a clock."""
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
    """Send up to `count` requests in one call; `first` is the number of the first one in this run."""
    template = first % traffic.template_count
    count = min(count, BURST, traffic.template_count - template)
    t0 = now_ns(traffic, _REALTIME)
    for k in range(count):
        address = traffic.templates + (template + k) * traffic.frame_bytes
        frame = carray(pointer(address), traffic.frame_bytes, np.uint8)
        write_number(frame, _EPOCH, 4, traffic.epoch)
        write_number(frame, _SEQ, 4, traffic.first_seq + first + k)
        write_number(frame, _T0, 8, t0)
    sent: int = sendmmsg(traffic.fd, traffic.messages + template * _MMSGHDR_BYTES, count, 0)
    return max(0, sent)


@compiled
def take_answers(traffic: Traffic, latencies: NDArray[np.int64]) -> int:
    """Note the latency (ns) of each answer that is in the ring; returns how many requests they answer."""
    answered = 0
    while True:
        slot = traffic.ring + traffic.head % traffic.slots * traffic.slot_size
        if load_acquire(slot) & TP_STATUS_USER == 0:
            return answered
        header = carray(pointer(slot), 1, TPACKET2_HDR)[0]
        if header.tp_snaplen >= _T0 + 8:
            frame = carray(pointer(slot + header.tp_mac), header.tp_snaplen, np.uint8)
            index = read_number(frame, _SEQ, 4) - traffic.first_seq
            ours = read_number(frame, _EPOCH, 4) == traffic.epoch
            if ours and 0 <= index < len(latencies) and latencies[index] < 0:
                arrival = int64(header.tp_sec) * 1_000_000_000 + int64(header.tp_nsec)
                latencies[index] = arrival - read_number(frame, _T0, 8)
                answered += 1
        store_release(slot, TP_STATUS_KERNEL)
        traffic.head += 1


@compiled
def pause(traffic: Traffic) -> None:
    """Leave the core to others for a moment."""
    timespec = traffic.clock
    timespec[0], timespec[1] = 0, _PAUSE_NS
    nanosleep(timespec.ctypes.data, 0)


@entry_point
def exchange(traffic: Traffic, latencies: NDArray[np.int64]) -> int:
    """Send one request for each element and take the answers, until nothing happens any more.

    Returns the time from the first request to the last, ns.
    """
    start = now_ns(traffic, _MONOTONIC)
    sent, answered = int64(0), int64(0)
    last_send = last_news = start
    while answered < len(latencies):
        now = now_ns(traffic, _MONOTONIC)
        paced = 1 + int64((now - start) / traffic.interval_ns)
        due = min(len(latencies), answered + traffic.window, paced)
        if sent < due:
            sent += send_some(traffic, sent, due - sent)
            last_send = last_news = now
        new = take_answers(traffic, latencies)
        if new:
            answered += new
            last_news = now
        elif traffic.interval_ns > _SPIN_NS:
            pause(traffic)
        else:
            sched_yield()  # BMv2 has more threads than there are cores
        if now - last_news > _QUIET_NS:
            break
    return max(1, last_send - start)
