"""Digests and log records on their way from packets to the control plane, through the loop."""

from __future__ import annotations

from random import Random

from softswitch.compiled import CompiledPipeline
from softswitch.jit import MachineCode
from softswitch.pipeline import DigestMessage, LogRecord
from softswitch.ports import PortLoop
from tests.harness.constructs import CONSTRUCTS, compiled

CPU = 1
TIMEOUT = 5.0


def test_the_loop_hands_over_what_packets_tell() -> None:
    construct, program = CONSTRUCTS["digests_logs"], compiled("digests_logs")
    code = MachineCode(program)
    live, alone = CompiledPipeline(program, code), CompiledPipeline(program, code)
    random = Random(3)
    frames = [frame for _ in range(200) if (frame := construct.frame(random)[1])]
    for pipeline in (live, alone):
        construct.prepare(pipeline)
    for frame in frames:
        alone.process(CPU, frame, 0, 0)
    expected = alone.take_notices()
    assert {type(notice) for notice in expected} == {DigestMessage, LogRecord}
    with PortLoop({}, CPU) as loop:
        loop.notice_socket.settimeout(TIMEOUT)
        loop.start(live)
        for frame in frames:
            loop.cpu_socket.send(frame)
        told = [live.decode_notice(loop.notice_socket.recv(1 << 16)) for _ in expected]
        assert loop.lost_notices == 0
    assert told == expected


def test_notices_that_nobody_reads_do_not_hold_up_the_loop() -> None:
    construct, program = CONSTRUCTS["digests_logs"], compiled("digests_logs")
    pipeline = CompiledPipeline(program)
    random = Random(3)
    telling = next(f for _ in range(200) if (f := construct.frame(random)[1]) and _tells(pipeline, f))
    with PortLoop({}, CPU) as loop:
        loop.cpu_socket.settimeout(TIMEOUT)
        loop.start(pipeline)
        for _ in range(20_000):
            loop.cpu_socket.send(telling)
        loop.stop()
        assert loop.lost_notices > 0
        assert loop.counters()[CPU].rx + loop.counters()[CPU].rx_dropped == 20_000


def _tells(pipeline: CompiledPipeline, frame: bytes) -> bool:
    pipeline.process(CPU, frame, 0, 0)
    return bool(pipeline.take_notices())
