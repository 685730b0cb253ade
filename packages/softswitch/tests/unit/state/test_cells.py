"""Counters, meters, registers and value sets: each cell's words, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from softswitch import ir
from softswitch.errors import StateError, TableFull
from softswitch.pipeline import CounterValue, MeterConfig
from softswitch.state.cells import Cells
from switch_harness.state_programs import State, program
from switch_harness.wording import mentions

WIDTHS = (1, 8, 9, 16, 17, 33, 64, 65, 96, 130)
BYTES = (1, 1, 2, 2, 4, 8, 8, 16, 16, 24)
PROGRAM = program(
    counters=(ir.Counter("first", 2), ir.Counter("second", 3)),
    meters=(ir.Meter("slow", 2, False), ir.Meter("fast", 3, True)),
    registers=tuple(ir.Register(f"r{width}", 3, width) for width in WIDTHS),
    value_sets=(ir.ValueSet("narrow", (9, 8), 2), ir.ValueSet("wide", (33, 32), 2)),
)


@pytest.fixture
def state() -> State:
    return State(PROGRAM)


@pytest.fixture
def cells(state: State) -> Cells:
    return Cells(PROGRAM, state.layout, state.memory)


def test_counters_are_stored_in_their_words_and_read_back(state: State, cells: Cells) -> None:
    cells.write_counter("first", 1, CounterValue(1, 2))
    cells.write_counter("second", 0, CounterValue(3, 4))
    cells.write_counter("second", 2, CounterValue(5, 6))
    assert state.words(state.layout.counters[0].first // 8, 10) == [0, 0, 1, 2, 3, 4, 0, 0, 5, 6]
    assert cells.read_counter("second", 0, 3) == [(3, 4), (0, 0), (5, 6)]
    assert cells.read_counter("second", 1, 3) == [(0, 0), (5, 6)]
    assert cells.read_counter("first", 1, 99) == [(1, 2)]
    assert cells.read_counter("first", 1, 1) == []


def test_meters_are_stored_in_their_words(state: State, cells: Cells) -> None:
    cells.write_meter("fast", 1, MeterConfig(500_000, 10, 1_000_000, 20))
    half, one = 0x3FE0000000000000, 0x3FF0000000000000
    configured = [1, one, 20, 20, 0, half, 10, 10, 0]
    assert state.words(state.layout.meters[0], 45) == [0] * 27 + configured + [0] * 9
    cells.write_meter("slow", 1, MeterConfig(1_000_000, 1, 1_000_000, 2))
    cells.write_meter("fast", 1, None)
    assert state.words(state.layout.meters[0], 45) == [0] * 9 + [1, one, 2, 2, 0, one, 1, 1, 0] + [0] * 27


def test_cells_of_many_registers_are_read_together(cells: Cells) -> None:
    names = [f"r{width}" for width in WIDTHS if width <= 64]
    for number, name in enumerate(names):
        cells.fill_register(name, 1)
        cells.write_register(name, number % 3, (1 << int(name[1:])) - 1 - (number > 0))
    registers, indexes = (each.ravel() for each in np.indices((len(names), 3)))
    read = cells.read_register_cells(names, registers, indexes)
    assert read.tolist() == [value for name in names for value in cells.read_register(name, 0, 3)]
    assert read.max() == (1 << 64) - 2
    for index in (-1, 3):
        with pytest.raises(StateError, match=mentions("r8", 0, 2, index)):
            cells.read_register_cells(names, np.array([0, 1]), np.array([2, index]))


@pytest.mark.parametrize(("width", "size"), list(zip(WIDTHS, BYTES, strict=True)))
def test_registers_are_stored_in_their_bytes_and_read_back(
    state: State, cells: Cells, width: int, size: int
) -> None:
    name, first = f"r{width}", state.layout.registers[WIDTHS.index(width)].first
    maximum = (1 << width) - 1
    before = bytes(state.memory.byte_view)
    cells.write_register(name, 1, maximum)
    after = bytes(state.memory.byte_view)
    assert after[first + size : first + 2 * size] == maximum.to_bytes(size, "little")
    assert after[: first + size] + bytes(size) + after[first + 2 * size :] == before
    assert cells.read_register(name, 0, 3) == [0, maximum, 0]
    assert cells.read_register(name, 1, 2) == [maximum]
    assert cells.read_register(name, 1, 99) == [maximum, 0]
    cells.write_register(name, 1, 0)
    assert bytes(state.memory.byte_view) == before


BESIDE = program(
    actions=(
        ir.Action("both", (), (
            ir.Assign(ir.FieldRef(0, 1), ir.Binary(ir.Op.OR, ir.FieldRef(0, 0), ir.FieldRef(0, 2))),
            ir.RegisterRead(ir.FieldRef(0, 3), 1, ir.FieldRef(0, 0)),
            ir.Count(0, ir.FieldRef(0, 1)),
            ir.RegisterWrite(2, ir.FieldRef(0, 0), ir.Constant(1)),
            ir.Count(1, ir.FieldRef(0, 0)),
        )),
    ),
    counters=(ir.Counter("pushes", 40), ir.Counter("few", 4)),
    registers=(ir.Register("alone", 40, 8), ir.Register("held", 40, 32), ir.Register("flag", 40, 1)),
)  # fmt: skip


def test_cells_with_the_same_index_field_are_adjacent_and_independent() -> None:
    state = State(BESIDE)
    cells, layout = Cells(BESIDE, state.layout, state.memory), state.layout
    first = layout.counters[0].first
    assert layout.counters[0] == (first, 24)
    assert (layout.registers[1], layout.registers[2]) == ((first + 16, 24), (first + 20, 24))
    assert (layout.registers[0].step, layout.counters[1].step) == (1, 16)
    for index in (0, 7, 39):
        cells.write_counter("pushes", index, CounterValue(index + 1, 60))
        cells.write_register("held", index, 0xFFFF_FF00 | index)
        cells.write_register("flag", index, 1)
    assert cells.read_counter("pushes", 6, 9) == [(0, 0), (8, 60), (0, 0)]
    assert cells.read_register("held", 38, 99) == [0, 0xFFFF_FF27]
    assert cells.read_register("flag", 0, 8) == [1, 0, 0, 0, 0, 0, 0, 1]
    cells.write_register("held", 7, 0)
    assert cells.read_counter("pushes", 7, 8) == [(8, 60)]
    assert cells.read_register("flag", 7, 8) == [1]
    assert cells.read_register("alone", 0, 40) == [0] * 40


def test_value_sets_are_stored_in_their_words(state: State, cells: Cells) -> None:
    cells.write_value_set("narrow", [(0x1FF, 3), (1, 0xFF)])
    cells.write_value_set("wide", [(1 << 32 | 5, 7)])
    narrow, wide = state.layout.value_sets
    assert state.words(narrow, 3) == [2, 0x1FF03, 0x1FF]
    assert state.words(wide, 5) == [1, 5 << 32 | 7, 1, 0, 0]
    cells.write_value_set("narrow", [(2, 2)])
    assert state.words(narrow, 2) == [1, 0x202]
    cells.write_value_set("narrow", [])
    assert state.word(narrow) == 0
    assert state.word(wide) == 1


def test_missing_cells_are_refused(cells: Cells) -> None:
    with pytest.raises(StateError, match=mentions(0, 1, 2)):
        cells.write_counter("first", 2, CounterValue(1, 1))
    with pytest.raises(StateError, match=mentions(0, 1, 2)):
        cells.write_meter("slow", 2, None)
    with pytest.raises(StateError, match=mentions("r8", 0, 2, 3)):
        cells.write_register("r8", 3, 1)
    with pytest.raises(TableFull, match=mentions("full", 2, 3)):
        cells.write_value_set("narrow", [(1, 1)] * 3)
