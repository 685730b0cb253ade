"""Steps of the Unix clock, which nothing in the switch is timed by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nativekit.clocks import MIN_STEP_NS, measure_offset
from nativekit.plain import plain
from nativekit.records import one_record
from softswitch.frames.ports import FramePorts
from softswitch.ports.checksums import VNET_HEADER_BYTES
from softswitch.ports.forwarding import arrival_us, discard_frames
from softswitch.ports.layout import BURST, SWITCH, SwitchRecord
from softswitch.ports.loop import PortLoop
from softswitch.ports.sockets import TP_STATUS_USER, TPACKET2_HDR
from switch_harness.clocks import STEPS_NS, SteppedClock, readers_of_unix_time
from switch_harness.effort import examples

SOURCES = Path(__file__).parents[3] / "src"
US, MS, S = 1_000, 1_000_000, 1_000_000_000


class Rings:
    """The stamps of two ports' rings, and what the switch's loop does with them, in a test's own time."""

    def __init__(self) -> None:
        self.now_ns = 77 * S
        self.clock = SteppedClock(lambda: self.now_ns)
        self.stamps: tuple[list[int], list[int]] = [], []
        self.switch = one_record(SwitchRecord)
        self.switch.start_ns, self.switch.unix_offset_ns = self.now_ns, self.clock.time_ns() - self.now_ns
        self._measure = plain(measure_offset, self.clock.replacements)
        self._arrival_us = plain(arrival_us)

    def arrive(self, p: int) -> None:
        self.stamps[p].append(self.clock.time_ns())

    def read(self, p: int) -> list[int]:
        """Read a burst of a port; return the arrivals in µs since start."""
        now_ns, port = self._measure(self.switch), self.switch.ports[p]
        stamps, self.stamps[p][:BURST] = self.stamps[p][:BURST], []
        return [int(self._arrival_us(self.switch, port, stamp, now_ns)) for stamp in stamps]

    @property
    def now_us(self) -> int:
        return (self.now_ns - int(self.switch.start_ns)) // US


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.sampled_from([1, 900, 20 * US, 3 * MS, 700 * MS, 5_000 * S])),
        st.tuples(st.just("arrive"), st.integers(0, 1)),
        st.tuples(st.just("arrive many"), st.integers(0, 1)),
        st.tuples(st.just("read"), st.integers(0, 1)),
        st.tuples(st.just("step"), st.sampled_from([*STEPS_NS.values(), -MIN_STEP_NS, MIN_STEP_NS, 2 * S])),
    ),
    max_size=40,
)


@settings(max_examples=examples(100), deadline=None)
@given(EVENTS)
@example([("arrive many", 0), ("step", -3_600 * S), ("read", 0), ("arrive", 0), ("pass", 20 * US)])
def test_arrival_times_of_frames_do_not_follow_steps_of_the_unix_clock(events: list[tuple[str, int]]) -> None:
    """A frame that a step overtook arrives later, but not after it is read; a port's frames are in order."""
    rings = Rings()
    waiting: tuple[list[int], list[int]] = [], []  # true arrivals in µs, by port
    overtaken = [0, 0]  # frames in the ring that were there at a step, or that came before it was noticed
    latest, has_stepped = [0, 0], False
    for name, number in [*events, *[("read", p) for p in (0, 1) for _ in range(9)]]:
        if name == "pass":
            rings.now_ns += number
        elif name.startswith("arrive"):
            for _ in range(1 if name == "arrive" else 40):
                rings.arrive(number)
                waiting[number].append(rings.now_us)
        elif name == "step" and not has_stepped:  # one between two bursts
            rings.clock.step(number)
            has_stepped = True
        elif name == "read":
            if has_stepped:
                overtaken, has_stepped = [len(each) for each in waiting], False
            for arrival in rings.read(number):
                true = waiting[number].pop(0)
                assert latest[number] <= arrival <= rings.now_us
                # A frame behind those that a step overtook does not arrive before them.
                assert arrival >= true if overtaken[number] else arrival == max(true, latest[number])
                overtaken[number] = max(0, overtaken[number] - 1)
                latest[number] = arrival
    assert not any(waiting)


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_idle_ports_get_the_time_of_their_next_frame(step_ns: int) -> None:
    """After a step, with hours between two frames, and for the first frame of a port."""
    rings = Rings()
    for p in (0, 1):
        for _ in range(3):
            rings.clock.step(step_ns)
            rings.now_ns += 7_200 * S
            rings.arrive(p)
            rings.now_ns += 30 * US
            assert rings.read(p) == [rings.now_us]  # its true arrival is 30 µs ago, but that cannot be known
            rings.arrive(p)
            rings.now_ns += 30 * US
            assert rings.read(p) == [rings.now_us - 30]


def test_an_interrupted_reading_of_the_clocks_does_not_reorder_a_port() -> None:
    """The thread waits for 500 µs between its two readings, in the first of two bursts of a full ring."""
    rings = Rings()
    for _ in range(BURST + 1):
        rings.arrive(0)
    rings.now_ns += 2 * MS
    rings.clock.step(-500 * US)
    first = rings.read(0)
    rings.clock.step(500 * US)
    assert first == [500] * BURST and rings.read(0) == [500]


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_the_compiled_loop_measures_the_clocks_for_each_burst(step_ns: int) -> None:
    """The memory of a ring is as the kernel fills it, and the clock is set before the first burst."""
    slots, slot_bytes = 8, 256
    ring = np.zeros((slots, slot_bytes), np.uint8)
    switch = np.zeros(1, SWITCH)[0]
    switch["start_ns"], switch["port_count"] = time.monotonic_ns(), 1
    port = switch["ports"][0]
    port["ring"], port["slots"], port["slot_size"] = ring.ctypes.data, slots, slot_bytes
    for is_first in (True, False):
        begin_ns, stamp_ns = time.monotonic_ns(), time.time_ns()
        header = ring[port["head"] % slots, : TPACKET2_HDR.itemsize].view(TPACKET2_HDR)
        header["tp_len"] = header["tp_snaplen"] = 60
        header["tp_mac"] = TPACKET2_HDR.itemsize + VNET_HEADER_BYTES
        header["tp_sec"], header["tp_nsec"] = divmod(stamp_ns, S)
        header["tp_status"] = TP_STATUS_USER
        if is_first:
            switch["unix_offset_ns"] = time.time_ns() - time.monotonic_ns() - step_ns
        stamped_ns = time.monotonic_ns()
        discard_frames(switch, None)
        end_ns, arrived_ns = time.monotonic_ns(), int(port["arrived_ns"])
        assert int(port["rx"]) == 2 - is_first
        assert (stamped_ns if is_first else begin_ns) <= arrived_ns <= end_ns
        assert switch["burst"]["time"][0] == (arrived_ns - int(switch["start_ns"])) // US


class _NoTransport:
    name = address = "none"

    def open(self, ports: FramePorts) -> None: ...

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        return True

    def close(self) -> None: ...


@pytest.fixture(params=["sockets", "frames"])
def ports(request: pytest.FixtureRequest, clock: SteppedClock) -> Iterator[PortLoop | FramePorts]:
    with PortLoop({}) if request.param == "sockets" else FramePorts(_NoTransport()) as opened:
        yield opened


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedClock:
    stepped = SteppedClock()
    monkeypatch.setattr(time, "time_ns", stepped.time_ns)
    monkeypatch.setattr(time, "time", lambda: stepped.time_ns() / S)
    return stepped


def test_the_time_of_packets_and_timers_does_not_step(
    ports: PortLoop | FramePorts, clock: SteppedClock
) -> None:
    """Idle timeouts, digests, meters and registers with times have no other clock (`ports.now`)."""
    for step_ns in STEPS_NS.values():
        began_ns, before_us = time.monotonic_ns(), ports.now()
        clock.step(step_ns)
        passed_us = ports.now() - before_us
        assert 0 <= passed_us <= (time.monotonic_ns() - began_ns) // US + 1


READS_UNIX_TIME = {
    "nativekit/clocks.py": "converts the kernel's stamps",
    "softswitch/frames/pcap_files.py": "times of a pcap file",
    "softswitch/p4runtime/notifications.py": "timestamps of P4Runtime's messages, which are in Unix time",
    "softswitch/ports/loop.py": "times of pcap files",
    "softswitch/runtime/device.py": "the answer to get_time_since_epoch",
}


def test_only_listed_modules_read_the_unix_clock() -> None:
    assert readers_of_unix_time(*SOURCES.iterdir()) == set(READS_UNIX_TIME)
