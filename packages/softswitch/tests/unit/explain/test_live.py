"""`softswitch --trace`: the ports run the interpreter, and the trace has what they sent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import SwitchError
from softswitch.explain.filters import parse_filter
from softswitch.explain.live import Trace, TracedPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import METHODS
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from softswitch.queues.shape import Rate, Shape, packet_depth, parse_rate
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS, ecn
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says

CPU = 255
ROOT = Path(__file__).parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.jsonl"


@pytest.fixture
def trace(file: Path) -> Iterator[Trace]:
    with Trace(file) as opened:
        yield opened


def lines(file: Path) -> list[dict[str, Any]]:
    """The events so far; the last line may be on its way."""
    return [json.loads(line) for line in file.read_text().rpartition("\n")[0].splitlines()]


@pytest.mark.parametrize("name", ["digests_logs", "replication"])
def test_the_ports_send_the_frames_of_the_trace(name: str, file: Path, trace: Trace) -> None:
    construct, program = CONSTRUCTS[name], compiled(name)
    live, alone = TracedPipeline(program, trace), InterpretedPipeline(program)
    random = Random(3)
    frames = [frame for _ in range(40) if (frame := construct.frame(random)[1])]
    for pipeline in (live, alone):
        construct.prepare(pipeline)
    outputs = [out for frame in frames for out in alone.process(CPU, frame, 0, 0)]
    notices = alone.take_notices()
    with PortLoop({}, PortOptions(CPU)) as loop:
        loop.notice_socket.settimeout(PATIENCE_S)
        loop.start(live)
        for frame in frames:
            loop.cpu_socket.send(frame)
        assert [live.decode_notice(loop.notice_socket.recv(1 << 16)) for _ in notices] == notices
        wait_for(lambda: loop.counters().ports[CPU].rx == len(frames))
        loop.stop()
        counters = loop.counters()
    events = lines(file)
    assert [e["packet"] for e in events if e["kind"] == "begin" and e["parent"] is None] == [
        *range(1, len(frames) + 1)
    ]
    sent = [e for e in events if e["kind"] == "send"]
    assert [e["port"] for e in sent] == [out.port for out in outputs]
    to_cpu = sum(e["port"] == CPU for e in sent)
    assert (counters.ports[CPU].tx, counters.no_such_port) == (to_cpu, len(sent) - to_cpu)


def test_packets_wait_in_the_queues_of_the_ports(file: Path, trace: Trace) -> None:
    """Eight frames for a queue of four that lets one go in an hour."""
    live = TracedPipeline(compiled("ecn"), trace, buffered=True)
    ecn.forward(live, CPU, CPU)
    with PortLoop({}, PortOptions(CPU, shapes={CPU: Shape(Rate(bits_per_s=1), packet_depth(4))})) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        loop.start(live)
        for number in range(8):
            loop.cpu_socket.send(ecn.frame(number))
        assert ecn.read(loop.cpu_socket.recv(2000)).number == 0
        wait_for(lambda: loop.counters().ports[CPU].queue_dropped == 3)
        loop.stop()
    events = lines(file)
    assert sum(e["kind"] == "queue" for e in events) == 8
    assert [e["packet"] for e in events if e["kind"] == "send"] == [1]


def test_packets_that_a_queue_dropped_are_reported_when_the_next_one_leaves(file: Path, trace: Trace) -> None:
    live = TracedPipeline(compiled("ecn"), trace, buffered=True)
    ecn.forward(live, CPU, CPU)
    with PortLoop({}, PortOptions(CPU, shapes={CPU: Shape(parse_rate("5pps"), packet_depth(1))})) as loop:
        loop.cpu_socket.settimeout(PATIENCE_S)
        loop.start(live)
        for number in range(6):
            loop.cpu_socket.send(ecn.frame(number))
        wait_for(lambda: loop.counters().ports[CPU].rx == 6)
        wait_for(lambda: loop.counters().ports[CPU].tx + loop.counters().ports[CPU].queue_dropped == 6)
        dropped = loop.counters().ports[CPU].queue_dropped
        loop.cpu_socket.send(ecn.frame(6))
        wait_for(lambda: sum(e["kind"] == "send" for e in lines(file)) == 7 - dropped)
        loop.stop()
    events = lines(file)
    assert sum(e["kind"] == "drop" for e in events) == dropped
    gone = [e["packet"] for e in events if e["kind"] in ("drop", "send")]
    assert sorted(gone) == [*range(1, 8)]


def test_a_filter_chooses_events(file: Path) -> None:
    with Trace(file, [parse_filter("kind=begin")]) as trace, PortLoop({}, PortOptions(CPU)) as loop:
        loop.start(TracedPipeline(compiled("ecn"), trace))
        for number in range(2):
            loop.cpu_socket.send(ecn.frame(number))
        wait_for(lambda: len(lines(file)) == 2)
        loop.stop()
    assert [(e["kind"], e["packet"]) for e in lines(file)] == [("begin", 1), ("begin", 2)]


def test_a_trace_file_that_cannot_be_written_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the start it is an error; later the switch continues without a trace and prints one warning."""
    with pytest.raises(SwitchError, match="nowhere"):
        Trace(tmp_path / "nowhere" / "trace.jsonl")
    live = TracedPipeline(compiled("ecn"), Trace(Path("/dev/full")))
    ecn.forward(live, CPU, CPU)
    with PortLoop({}, PortOptions(CPU)) as loop:
        loop.start(live)
        for number in range(3):
            loop.cpu_socket.send(ecn.frame(number))
        wait_for(lambda: loop.counters().ports[CPU].tx == 3)
        loop.stop()
    assert sum("trace ends here: /dev/full" in each.getMessage() for each in caplog.records) == 1


def test_without_a_trace_the_ports_run_machine_code_alone(trace: Trace) -> None:
    with SwitchPorts(Settings(cpu_port=CPU, datapath=Datapath.SOCKETS)) as ports:
        assert type(ports.make(compiled("control"))) is CompiledPipeline
    with SwitchPorts(Settings(cpu_port=CPU), trace) as ports:
        assert type(ports.make(compiled("control"))) is TracedPipeline
        assert (ports.datapath, ports.sockets_reason) == (Datapath.SOCKETS, "packets are traced")


def test_a_traced_switch_announces_the_trace_at_the_start(file: Path) -> None:
    options = ["--grpc-server-addr", "127.0.0.1:0", "--trace", str(file), "--trace-filter", "table=forward"]
    command = [sys.executable, "-m", "softswitch", str(PROGRAMS / "control.json"), *options]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            message, datapath, ready = (process.stderr.readline() for _ in range(3))
            assert "interpreter" in message and str(file) in message
            assert datapath == "softswitch: datapath sockets: packets are traced\n"
            assert says(ready, "softswitch", "ready", 0)
        finally:
            process.terminate()
        assert process.stderr.read() == ""
        assert process.wait() == 0
    assert file.read_text() == ""


class CountingLock:
    """Counts how often it is taken."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        pass


def test_each_method_of_the_control_plane_takes_the_lock(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = CountingLock()
    monkeypatch.setattr("softswitch.explain.live.threading.RLock", lambda: lock)
    pipeline = TracedPipeline(compiled("control"), trace)
    for subject, names in METHODS.items():
        assert names
        for name in names:
            before = lock.count
            with pytest.raises(TypeError):  # without arguments
                getattr(getattr(pipeline, subject), name)()
            assert lock.count == before + 1, f"{subject}.{name}"
