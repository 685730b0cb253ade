"""Our programs behave as compiled by p4c: `tests/programs/p4c` has what p4c 1.2.5 printed, compressed."""

from __future__ import annotations

import lzma
from functools import cache
from pathlib import Path
from random import Random

import pytest

from foundation.designs.programs import programs_of, trees
from foundation.protocol.header import LANES
from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.pipeline import ControlPlane
from switch_harness.effort import steps
from switch_harness.likely import Palette, PathFrames
from switch_harness.state import StateDrawer, Write
from tests.unit.programs.test_alike import compare

REFERENCES = Path(__file__).parents[2] / "programs" / "p4c"
PROGRAMS = {program.source.stem: program for tree in trees() for program in programs_of(tree)}


@cache
def reference(name: str) -> ir.Program:
    return load_program(lzma.decompress((REFERENCES / f"{name}.json.xz").read_bytes()))


def ours(name: str) -> ir.Program:
    return load_program(PROGRAMS[name].json.read_bytes())


def test_each_program_has_a_reference() -> None:
    for suffix in (".json.xz", ".p4info.txtpb.xz"):
        assert {file.name.removesuffix(suffix) for file in REFERENCES.glob(f"*{suffix}")} == PROGRAMS.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_p4info_of_a_program_equals_the_text_of_p4c(name: str) -> None:
    expected = lzma.decompress((REFERENCES / f"{name}.p4info.txtpb.xz").read_bytes()).decode()
    assert PROGRAMS[name].p4info.read_text() == expected


def objects_of(program: ir.Program) -> dict[str, object]:
    """Return what the control plane sees of a program."""
    tables = {
        table.name: (
            [(part.name, part.width, part.kind, part.mask) for part in table.key],
            [(program.actions[i].name, program.actions[i].parameters) for i in table.actions],
            table.size, table.has_counter, table.is_immutable, table.has_idle_timeout,
        )
        for table in program.tables.values()
        if table.key
    }  # fmt: skip
    return {
        "tables": tables,
        "registers": sorted((each.name, each.size, each.width) for each in program.registers),
        "counters": sorted((each.name, each.size) for each in program.counters),
        "meters": sorted((each.name, each.size, each.counts_bytes) for each in program.meters),
        "errors": program.errors,
        "digests": [len(each.values) for each in program.digests],
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_objects_of_the_reference(name: str) -> None:
    assert objects_of(ours(name)) == objects_of(reference(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_no_more_tables_conditions_and_statements_than_the_reference(name: str) -> None:
    def sizes(program: ir.Program) -> tuple[int, int, int]:
        nodes = [*program.ingress.nodes.values(), *program.egress.nodes.values()]
        tables = sum(isinstance(node, ir.Table) for node in nodes)
        return tables, len(nodes) - tables, sum(len(action.body) for action in program.actions)

    for our_size, size in zip(sizes(ours(name)), sizes(reference(name)), strict=True):
        assert our_size <= size * 1.05


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_sends_the_frames_of_the_reference(name: str) -> None:
    """Random entries, and frames along the parser's paths; counters and registers are equal as well."""
    random, oracle, pipeline = Random(name), *map(InterpretedPipeline, (reference(name), ours(name)))
    drawer = StateDrawer(oracle, random)
    palette = Palette(oracle, random)
    frames = PathFrames(oracle.program, random, palette)
    for now in range(steps(60)):
        write = drawer.draw() if drawer.kinds else (lambda _: None)
        assert result_of(write, pipeline) == result_of(write, oracle)
        port, frame = frames.draw()
        sent = pipeline.process(port, frame, now, now + 3), len(pipeline.take_notices())
        assert sent == (oracle.process(port, frame, now, now + 3), len(oracle.take_notices()))
    assert state_of(pipeline) == state_of(oracle)


def result_of(write: Write, pipeline: ControlPlane) -> object:
    try:
        return write(pipeline)
    except SwitchError as error:
        return type(error)


def state_of(pipeline: ControlPlane) -> dict[str, object]:
    cells, program = pipeline.cells, pipeline.program
    registers = {each.name: cells.read_register(each.name, 0, each.size) for each in program.registers}
    return registers | {each.name: cells.read_counter(each.name, 0, each.size) for each in program.counters}


@pytest.mark.parametrize("name", ["hotset", "hotline_64"])
def test_the_hotset_program_serves_requests_as_the_reference(name: str) -> None:
    lanes = 64 if name == "hotline_64" else LANES
    oracle, pipeline = InterpretedPipeline(reference(name)), InterpretedPipeline(ours(name))
    compare(Random(name), oracle, pipeline, steps(150), lanes)
