"""Queues of the running switch, by its CPU port alone, which needs neither root nor interfaces."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.errors import PortError
from softswitch.jit import MachineCode
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from softswitch.queues.shape import (
    DEFAULT_DEPTH,
    UNLIMITED,
    Rate,
    Shape,
    byte_depth,
    packet_depth,
    parse_depth,
    parse_rate,
)
from switch_harness import ecn
from switch_harness.constructs import compiled
from switch_harness.native import Doubles, Wires
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions

CPU = 255
PROGRAM = compiled("ecn")
CODE = MachineCode(PROGRAM, buffered=True)
LIBC = ctypes.CDLL(None)
HOUR_LONG = Rate(bits_per_s=1)  # the second frame, that is: each takes minutes


def pipeline() -> CompiledPipeline:
    """What comes from the CPU port goes back there; marked where two waited before."""
    made = CompiledPipeline(PROGRAM, CODE)
    ecn.forward(made, CPU, CPU)
    ecn.mark_from(made, CPU, 2)
    return made


@contextmanager
def switch(shape: Shape | None = None, *, busy_poll: bool = False) -> Iterator[PortLoop]:
    shapes = {} if shape is None else {CPU: shape}
    with PortLoop({}, PortOptions(CPU, busy_poll=busy_poll, shapes=shapes)) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        yield loop


def burst(loop: PortLoop, of: CompiledPipeline, *frames: bytes) -> None:
    LIBC.pthread_mutex_lock(ctypes.c_void_p(of.mutex_address))
    try:
        for frame in frames:
            loop.cpu_socket.send(frame)
    finally:
        LIBC.pthread_mutex_unlock(ctypes.c_void_p(of.mutex_address))


@pytest.mark.parametrize("busy_poll", [False, True])
def test_departures_are_a_gap_apart_and_carry_the_queue_depth(busy_poll: bool) -> None:
    """Whatever else the machine does: nothing goes early, and depths are of those that had not gone yet."""
    gap_us, count = 20_000, 7
    with switch(Shape(parse_rate("50pps"), parse_depth("64")), busy_poll=busy_poll) as loop:
        running = pipeline()
        loop.start(running)
        burst(loop, running, *map(ecn.frame, range(count)))
        frames = [loop.cpu_socket.recv(2000) for _ in range(count)]
    probes = [ecn.read(frame) for frame in frames]
    assert [probe.number for probe in probes] == list(range(count))
    slack_us = 200  # two clocks, and whole microseconds
    for k, probe in enumerate(probes):
        assert probe.departure - probe.enq_timestamp == probe.deq_timedelta
        assert probe.departure >= probes[0].enq_timestamp + k * gap_us - slack_us
        waited = [other for other in probes[:k] if other.departure > probe.enq_timestamp]
        assert probe.enq_qdepth in (len(waited), len(waited) - 1)  # it may go within the microsecond
        assert ecn.is_marked(frames[k]) == (probe.enq_qdepth >= 2)
    assert any(map(ecn.is_marked, frames))
    assert not ecn.is_marked(frames[0])


def test_a_full_queue_drops_packets_and_packets_waiting_at_the_end_are_dropped_too() -> None:
    with switch(Shape(HOUR_LONG, packet_depth(4))) as loop:
        loop.start(pipeline())
        for number in range(8):
            loop.cpu_socket.send(ecn.frame(number))
        assert ecn.read(loop.cpu_socket.recv(2000)).number == 0
        wait_for(lambda: loop.counters().ports[CPU].queue_dropped == 3)
        loop.stop()
        port = loop.counters().ports[CPU]
        assert (port.rx, port.tx, port.queue_dropped) == (8, 1, 3 + 4)
        assert "dropped by the queue (full, or the program ended) 7" in loop.counters().describe()[0]


def test_a_queue_of_bytes_takes_frames_that_fit() -> None:
    with switch(Shape(HOUR_LONG, byte_depth(1_000))) as loop:
        loop.start(pipeline())
        for number, length in enumerate((100, 600, 600, 401, 400)):
            loop.cpu_socket.send(ecn.frame(number, body=length - ecn.MIN_BYTES))
        wait_for(lambda: loop.counters().ports[CPU].queue_dropped == 2)
        loop.stop()
        assert loop.counters().ports[CPU].queue_dropped == 2 + 2


def test_a_new_program_does_not_get_packets_queued_by_the_old_program() -> None:
    with switch(Shape(HOUR_LONG, DEFAULT_DEPTH)) as loop:
        loop.start(pipeline())
        for number in range(3):
            loop.cpu_socket.send(ecn.frame(number))
        wait_for(lambda: loop.counters().ports[CPU].rx == 3)
        loop.stop()
        loop.start(Wires({CPU: [CPU]}))
        assert ecn.read(loop.cpu_socket.recv(2000)).number == 0
        loop.cpu_socket.send(b"frame")
        assert loop.cpu_socket.recv(2000) == b"frame"
        # A frame is counted when it has been sent, and may be here before.
        loop.stop()
        port = loop.counters().ports[CPU]
        assert port.rx == port.tx + port.queue_dropped + port.rx_dropped == 4


def test_a_port_without_a_rate_lets_packets_go_at_once() -> None:
    with switch() as loop:
        running = pipeline()
        loop.start(running)
        burst(loop, running, *map(ecn.frame, range(100)))
        probes = [ecn.read(loop.cpu_socket.recv(2000)) for _ in range(100)]
        assert {(probe.enq_qdepth, probe.deq_qdepth) for probe in probes} == {(0, 0)}
        assert all(probe.departure == probe.enq_timestamp + probe.deq_timedelta for probe in probes)


def test_copies_that_wait_for_one_port_count_in_the_queue_depths_of_all_copies() -> None:
    with switch(Shape(UNLIMITED, DEFAULT_DEPTH)) as loop:
        running = CompiledPipeline(PROGRAM, CODE)
        ecn.copy(running, CPU, CPU, 3)
        loop.start(running)
        loop.cpu_socket.send(ecn.frame(1))
        probes = [ecn.read(loop.cpu_socket.recv(2000)) for _ in range(3)]
        assert [(probe.enq_qdepth, probe.deq_qdepth) for probe in probes] == [(0, 2), (1, 1), (2, 0)]


def test_all_copies_leave_if_there_are_more_than_leave_at_a_time() -> None:
    """A queue that is longer than one burst, without a rate and without a frame that would wake the loop."""
    with switch(Shape(UNLIMITED, packet_depth(200))) as loop:
        running = CompiledPipeline(PROGRAM, CODE)
        ecn.copy(running, CPU, CPU, 150)
        loop.start(running)
        loop.cpu_socket.send(ecn.frame(1))
        probes = [ecn.read(loop.cpu_socket.recv(2000)) for _ in range(150)]
        assert [probe.deq_qdepth for probe in probes] == list(reversed(range(150)))


def test_a_packet_for_a_missing_port_is_counted() -> None:
    with switch() as loop:
        running = CompiledPipeline(PROGRAM, CODE)
        ecn.forward(running, CPU, 7)
        loop.start(running)
        loop.cpu_socket.send(ecn.frame(1))
        wait_for(lambda: loop.counters().no_such_port == 1)


def test_a_packet_that_has_grown_beyond_the_largest_frame_is_dropped_and_counted() -> None:
    with switch() as loop:
        loop.start(Doubles())
        for size in (1_000, 1_100, 1_024):
            loop.cpu_socket.send(bytes(size))
        wait_for(lambda: loop.counters().ports[CPU].rx == 3)
        loop.stop()
        port = loop.counters().ports[CPU]
        assert (port.rx - port.rx_dropped, port.tx_oversize, port.queue_dropped) == (3, 1, 0)


def test_a_rate_or_queue_of_a_missing_port_is_refused() -> None:
    with pytest.raises(PortError, match=mentions("port 3", "switch")):
        PortLoop({}, PortOptions(CPU, shapes={3: Shape(UNLIMITED, DEFAULT_DEPTH)}))


def test_queues_that_do_not_fit_into_memory_are_refused() -> None:
    huge = Wires({})
    huge.queue_record_bytes = 1 << 48
    with switch() as loop, pytest.raises(PortError, match=mentions(64, "MiB")):
        loop.start(huge)
