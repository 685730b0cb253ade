"""Entries and frames that are drawn to meet, and what a trace tells of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import cast

import pytest

from softswitch import ir
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import Pipeline
from switch_harness import PROGRAMS
from switch_harness.likely import LikelyDrawer, Palette, PathFrames
from switch_harness.p4rt_writer import P4RuntimeWriter
from switch_harness.traced import Traced, headers_read
from switch_harness.zeroed import zeroed

FRAMES = 100


def drawers(traced: Traced) -> tuple[LikelyDrawer, PathFrames]:
    random, program = Random(1), traced.pipeline.program
    palette = Palette(traced.pipeline, random)
    names = {table.preamble.name for table in traced.p4info.tables}
    return LikelyDrawer(traced.pipeline, random, palette, names), PathFrames(program, random, palette)


def writer(traced: Traced, send: Callable[[p4r.Update], bool]) -> Pipeline:
    return cast(Pipeline, P4RuntimeWriter(traced.p4info, send))


@pytest.mark.parametrize(
    ("name", "hits"), [("control", "3 of 3"), ("match_kinds", "4 of 4"), ("l3", "1 of 1")]
)
def test_all_states_are_reached_and_all_tables_hit(name: str, hits: str) -> None:
    traced = Traced(PROGRAMS / name)
    drawer, frames = drawers(traced)
    for _ in range(FRAMES):
        traced.process(*frames.draw())
        entry = drawer.entry_for_one_of(traced.missed)
        if entry is not None:
            entry(writer(traced, traced.write))
    assert traced.hits() == f"{hits} tables hit"
    cpu_alone = {"parse_packet_out"}  # frames come from other ports
    assert {place for kind, place in traced.coverage.missed if kind == "parser state"} <= cpu_alone


def test_an_entry_that_the_switch_refuses_is_not_recorded() -> None:
    traced = Traced(PROGRAMS / "control")
    drawer, _ = drawers(traced)
    missed = [(traced.pipeline.program.tables["ControlIngress.forward"], (5,))]
    for write, kept in ((lambda _: False, 0), (lambda _: True, 1)):
        entry = drawer.entry_for_one_of(missed)
        assert entry is not None
        entry(writer(traced, write))
        assert len(drawer.entries) == kept
    assert drawer.entry_for_one_of(missed) is None


def test_an_entry_that_is_undone_is_removed() -> None:
    traced = Traced(PROGRAMS / "control")
    drawer, _ = drawers(traced)
    entry = drawer.entry_for_one_of([(traced.pipeline.program.tables["ControlIngress.forward"], (5,))])
    assert entry is not None
    entry(writer(traced, traced.write))
    assert len(list(traced.pipeline.tables.read("ControlIngress.forward"))) == 1
    drawer.take_back(writer(traced, traced.write))
    assert not list(traced.pipeline.tables.read("ControlIngress.forward"))
    assert not drawer.entries


def test_headers_read_by_a_statement_exclude_the_header_written() -> None:
    read, written = ir.FieldRef(3, 0), ir.FieldRef(1, 2)
    assert headers_read(ir.Assign(written, read)) == {3}
    assert headers_read(ir.RegisterWrite(0, written, read)) == {1, 3}


@pytest.mark.parametrize("name", ["stacks", "header_unions"])
def test_fields_of_headers_set_to_0_first_change_nothing(name: str, tmp_path: Path) -> None:
    traced, other = Traced(PROGRAMS / name), Traced(zeroed(PROGRAMS / name, tmp_path))
    _, frames = drawers(traced)
    start = other.pipeline.program.parser[other.pipeline.program.start_state]
    headers = [header for header in traced.pipeline.program.headers if not header.metadata]
    assert len(start.operations) == sum(not field.varbit for header in headers for field in header.fields)
    for _ in range(FRAMES):
        port, frame = frames.draw()
        assert traced.pipeline.process(port, frame, 0, 0) == other.pipeline.process(port, frame, 0, 0)
