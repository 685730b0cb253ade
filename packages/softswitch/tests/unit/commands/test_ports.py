"""What commands change in a switch that runs: queues and custom CRCs, in compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import SwitchError
from softswitch.hashing import Crc
from softswitch.pipeline import EntryWrite
from softswitch.queues.shape import packet_depth
from softswitch.settings import Datapath, Settings
from switch_harness.constructs import compiled
from switch_harness.wording import mentions

CPU = 255


@pytest.fixture
def ports() -> Iterator[SwitchPorts]:
    with SwitchPorts(Settings(cpu_port=CPU, datapath=Datapath.SOCKETS, priority_queues=2)) as found:
        yield found


def running(ports: SwitchPorts, name: str) -> CompiledPipeline:
    pipeline = ports.make(compiled(name))
    ports.start(pipeline)
    return cast(CompiledPipeline, pipeline)


def queues(ports: SwitchPorts) -> Any:
    assert ports._sockets is not None
    return ports._sockets._queues


def test_a_running_switch_gets_queues(ports: SwitchPorts) -> None:
    pipeline = running(ports, "registers")
    pipeline.cells.write_register(pipeline.program.registers[0].name, 3, 5)
    assert pipeline.queue_record_bytes == 0
    ports.set_queues(CPU, 1, 1000, None)
    assert pipeline.queue_record_bytes > 0
    assert queues(ports).queues["gap"].tolist() == [[0, 1_000_000]]
    assert pipeline.cells.read_register(pipeline.program.registers[0].name, 3, 4) == [5]
    ports.set_queues(None, None, None, 200)
    assert queues(ports).queues["max_packets"].tolist() == [[200, 200]]
    assert queues(ports).queues["gap"].tolist() == [[0, 1_000_000]]
    assert len(queues(ports).slots) == 400
    before = queues(ports).slots
    ports.set_queues(CPU, 0, None, 3)
    assert queues(ports).queues["max_packets"].tolist() == [[3, 200]]
    assert queues(ports).slots is before
    ports.set_queues(None, None, 0, None)
    assert queues(ports).queues["gap"].tolist() == [[0, 0]]


def test_a_later_program_has_queues_too(ports: SwitchPorts) -> None:
    running(ports, "registers")
    ports.set_queues(None, None, 10, None)
    ports.stop()
    assert running(ports, "control").queue_record_bytes > 0


def test_a_packet_waits_in_a_queue_that_was_added_later(ports: SwitchPorts) -> None:
    pipeline = running(ports, "control")
    ports.set_queues(None, None, None, 1)
    assert tuple(queues(ports).queues[0, 0])[:2] == packet_depth(1)
    pipeline.tables.write(list[EntryWrite]())
    passed = pipeline.enter(CPU, (3 << 7).to_bytes(2, "big") + bytes(64), 0, 0)
    assert ([waiting.port for waiting in passed.waiting], passed.outputs) == ([3], [])


@pytest.mark.parametrize(
    ("queue", "error"),
    [
        ((None, 2, 1, None), "Error: priority 2: expected 0 to 1 (--priority-queues)"),
        ((None, None, -1, None), "Error: rate: expected 0 (unlimited) to 1000000000000 packets/s, got -1"),
        ((None, None, None, 0), "Error: depth: expected 1 to 65536 packets, got 0"),
    ],
)
def test_impossible_queues_are_refused(
    ports: SwitchPorts, queue: tuple[int | None, int | None, int | None, int | None], error: str
) -> None:
    with pytest.raises(SwitchError) as refused:
        ports.set_queues(*queue)
    assert str(refused.value) == error


def test_a_changed_crc_is_computed_for_all_later_packets(ports: SwitchPorts) -> None:
    pipeline = running(ports, "hashes")
    (name,) = [each.name for each in pipeline.program.calculations if each.algorithm == "crc16_custom"]
    frame = bytes(range(1, 200))
    before = pipeline.process(1, frame, 0, 0)
    own = Crc(16, 0x8005, 0, 0, reflected=True)
    ports.set_crc(name, own)
    assert pipeline.process(1, frame, 0, 0) == before
    ports.set_crc(name, Crc(16, 0x1021, 0xFFFF, 0x1D0F, reflected=False))
    after = pipeline.process(1, frame, 0, 0)
    assert [output.port for output in after] == [output.port for output in before]
    changed = [i for i, (a, b) in enumerate(zip(after[0].frame, before[0].frame, strict=True)) if a != b]
    assert 0 < len(changed) <= 2
    assert ports.counters().ports[CPU].rx == 0


@pytest.mark.parametrize("datapath", Datapath)
def test_two_ports_of_one_interface_are_refused_in_each_datapath(datapath: Datapath) -> None:
    with pytest.raises(SwitchError, match=mentions("lo", 1, 2)):
        SwitchPorts(Settings(ports={1: "lo", 2: "lo"}, datapath=datapath))


def test_a_missing_interface_is_refused_and_the_program_runs_on(ports: SwitchPorts) -> None:
    pipeline = running(ports, "registers")
    with pytest.raises(SwitchError, match=mentions("nowhere", "interface")):
        ports.add(3, "nowhere")
    assert ports.names() == {}
    assert pipeline.cells.read_register(pipeline.program.registers[0].name, 0, 1) == [0]
    assert not SwitchPorts.is_up(cast(Any, type("None", (), {"_names": {1: "nowhere"}})), 1)
