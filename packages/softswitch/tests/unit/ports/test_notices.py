"""Digests and log records on their way from packets to the control plane, through the loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from random import Random
from time import monotonic

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.jit import MachineCode
from softswitch.pipeline import DigestMessage, LogRecord
from softswitch.ports import loop as ports_loop
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.waiting import PATIENCE_S

CPU = 1
LOST = re.compile(r"lost (\d+) dig.* that .*, (\d+) since the start")


def test_the_loop_hands_over_digests_and_log_records_of_packets() -> None:
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
    with PortLoop({}, PortOptions(CPU)) as loop:
        loop.notice_socket.settimeout(PATIENCE_S)
        loop.start(live)
        for frame in frames:
            loop.cpu_socket.send(frame)
        reported = [live.decode_notice(loop.notice_socket.recv(1 << 16)) for _ in expected]
        assert loop.counters().lost_notices == 0
    assert reported == expected


def test_unread_messages_do_not_block_the_loop_and_are_counted() -> None:
    pipeline = CompiledPipeline(compiled("digests_logs"))
    telling, reported = _telling_frame(pipeline)
    with PortLoop({}, PortOptions(CPU)) as loop:
        loop.start(pipeline)
        sent = _send_until(loop, telling, lambda: loop.counters().lost_notices > 0)
        loop.stop()
        counters = loop.counters()
        port = counters.ports[CPU]
        assert port.rx == sent
        assert _waiting(loop) + counters.lost_notices == reported * (port.rx - port.rx_dropped)


def test_lost_notices_are_reported_at_once_and_then_seldom(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ports_loop, "REPORT_INTERVAL_US", 3_600_000_000)
    pipeline = CompiledPipeline(compiled("digests_logs"))
    telling, _ = _telling_frame(pipeline)
    with PortLoop({}, PortOptions(CPU)) as loop:
        loop.start(pipeline)
        _send_until(loop, telling, lambda: len(caplog.records) > 0)
        first = _told(caplog.records[0].getMessage())
        assert first[0] == first[1] > 0
        _send_until(loop, telling, lambda: loop.counters().lost_notices > first[1] + 100)
        assert len(caplog.records) == 1
        loop.stop()
        lost = loop.counters().lost_notices
        assert loop.counters().describe()[-1] == f"digests and log records lost (not read in time): {lost}"
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert _told(caplog.records[1].getMessage()) == (lost - first[0], lost)


def _telling_frame(pipeline: CompiledPipeline) -> tuple[bytes, int]:
    """A frame that causes notices to the control plane, and how many."""
    construct, random = CONSTRUCTS["digests_logs"], Random(3)
    while True:
        frame = construct.frame(random)[1]
        pipeline.process(CPU, frame, 0, 0)
        if reported := len(pipeline.take_notices()):
            return frame, reported


def _send_until(loop: PortLoop, frame: bytes, condition: Callable[[], bool]) -> int:
    """Send a frame again and again; how often."""
    deadline = monotonic() + PATIENCE_S
    loop.cpu_socket.settimeout(PATIENCE_S)
    for sent in count():
        if condition():
            return sent
        assert monotonic() < deadline
        loop.cpu_socket.send(frame)
    raise AssertionError


def _waiting(loop: PortLoop) -> int:
    loop.notice_socket.setblocking(False)
    for read in count():
        try:
            loop.notice_socket.recv(1)
        except BlockingIOError:
            return read
    raise AssertionError


def _told(message: str) -> tuple[int, int]:
    found = LOST.fullmatch(message)
    assert found is not None
    return int(found[1]), int(found[2])
