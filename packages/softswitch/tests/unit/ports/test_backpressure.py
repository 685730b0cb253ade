"""A port that keeps what is not taken: the CPU port, which needs neither root nor interfaces."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from softswitch.compiled import CompiledPipeline
from softswitch.jit import MachineCode
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from switch_harness import ecn
from switch_harness.constructs import compiled
from switch_harness.waiting import PATIENCE_S, wait_for

CPU = 255
PROGRAM = compiled("ecn")
CODE = MachineCode(PROGRAM, buffered=True)
BODY = 500
FRAMES = 60  # fewer than a queue has room for


def pipeline() -> CompiledPipeline:
    made = CompiledPipeline(PROGRAM, CODE)
    ecn.forward(made, CPU, CPU)
    return made


@contextmanager
def switch() -> Iterator[PortLoop]:
    """Make a switch whose CPU port's other end takes a few frames at a time."""
    with PortLoop({}, PortOptions(CPU), backpressure={CPU: False}) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        loop._control.switch_end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4608)
        yield loop


def send(loop: PortLoop, numbers: range) -> None:
    for number in numbers:
        loop.cpu_socket.send(ecn.frame(number, body=BODY))


def test_frames_for_a_slow_reader_are_not_lost_and_depths_count_waiting_frames() -> None:
    with switch() as loop:
        loop.start(pipeline())
        send(loop, range(FRAMES))
        wait_for(lambda: loop.counters().ports[CPU].rx == FRAMES)
        assert loop.counters().ports[CPU].tx < 20
        probes = [ecn.read(loop.cpu_socket.recv(2000)) for _ in range(FRAMES)]
        wait_for(lambda: loop.counters().ports[CPU].tx == FRAMES)
        port = loop.counters().ports[CPU]
    assert [probe.number for probe in probes] == list(range(FRAMES))
    assert (port.tx_dropped, port.queue_dropped) == (0, 0)
    for k, probe in enumerate(probes):
        waited = sum(other.departure > probe.enq_timestamp for other in probes[:k])
        assert probe.enq_qdepth in (waited, waited - 1)  # it may go within the microsecond
    assert probes[0].enq_qdepth == 0
    assert max(probe.enq_qdepth for probe in probes) > FRAMES - 20
    assert [probe.deq_qdepth for probe in probes[-3:]] == [2, 1, 0]


def test_frames_that_wait_at_the_end_are_counted_as_dropped() -> None:
    with switch() as loop:
        loop.start(pipeline())
        send(loop, range(FRAMES))
        wait_for(lambda: loop.counters().ports[CPU].rx == FRAMES)
        loop.stop()
        port = loop.counters().ports[CPU]
        assert port.tx + port.tx_dropped + port.queue_dropped + port.rx_dropped == FRAMES
        assert (port.tx_dropped, port.queue_dropped > 30) == (1, True)
        loop.start(pipeline())
        for _ in range(port.tx):
            loop.cpu_socket.recv(2000)
        send(loop, range(1000, 1001))
        probe = ecn.read(loop.cpu_socket.recv(2000))
        assert (probe.number, probe.enq_qdepth) == (1000, 0)


def test_a_full_queue_drops_arriving_frames() -> None:
    with switch() as loop:
        loop.start(pipeline())
        send(loop, range(2 * FRAMES))
        wait_for(lambda: loop.counters().ports[CPU].rx == 2 * FRAMES)
        dropped = loop.counters().ports[CPU].queue_dropped
        assert dropped > 0
        probes = [ecn.read(loop.cpu_socket.recv(2000)) for _ in range(2 * FRAMES - dropped)]
        assert max(probe.enq_qdepth for probe in probes) == 63  # of 64
        assert all(sooner.number < later.number for sooner, later in pairwise(probes))
