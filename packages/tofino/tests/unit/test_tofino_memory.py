"""The count of a program's memory, beside the compiler's reports."""

from __future__ import annotations

import re

import pytest

from foundation.protocol.header import layout
from hotline_tofino.memory import (
    CALLER_BITS,
    SRAM_ERROR,
    SRAM_ERROR_OF_ROWS,
    STAGE_MAP_RAMS,
    STAGE_SRAMS,
    VALUES_OF_STAGE,
    ProgramCount,
    ProgramSize,
    caller_counts,
    network_role_counts,
    program_counts,
    rows_of_16,
    single_values,
)
from packages.tofino.tests.harness.twins import TWINS
from tests.harness.testnet import code_of
from tools.evidence.result import published_table

_OF_LANES = re.compile(r"Tofino (\d), (\d+) lanes, ([\d,]+) slots")
_OF_ROWS = re.compile(r"Tofino (\d), ([\d,]+) rows of 16")
REPORTS = published_table("tofino-resources")


@pytest.mark.parametrize("program", [row.name for row in REPORTS.rows])
def test_the_counted_memory_equals_the_compilers_report(program: str) -> None:
    found = _OF_LANES.fullmatch(program) or _OF_ROWS.fullmatch(program)
    assert found is not None
    chip, *numbers = (int(number.replace(",", "")) for number in found.groups())
    callers, error = 1 << CALLER_BITS[chip], SRAM_ERROR
    if len(numbers) == 2:
        size, rows = single_values(numbers[0], numbers[1] // numbers[0], callers), numbers[1]
    else:
        size, rows, error = rows_of_16(numbers[0], callers), numbers[0], SRAM_ERROR_OF_ROWS
    assert (size.rows, size.map_rams) == (rows, REPORTS.cell(program, "map RAM"))
    srams = REPORTS.cell(program, "SRAM")
    assert isinstance(srams, float) and abs(size.srams - srams) <= error


def test_all_compiled_programs_are_compared() -> None:
    assert len(REPORTS.rows) == 11


def test_a_home_of_a_network_has_two_more_tables_and_other_switches_have_neither_cells_nor_rows() -> None:
    alone, home, other = network_role_counts()
    assert alone.map_rams == home.map_rams == REPORTS.cell("Tofino 1, 16 lanes, 131,072 slots", "map RAM")
    assert alone.cells + alone.values == alone.map_rams and alone.look_ups == 16 * 8_192 // 1_024
    # A word of 128 bits for each of 1,024 callers, and for each of 256 servers.
    assert home[1:] == (alone.cells, alone.values, alone.look_ups + 2, alone.map_rams, alone.srams + 2)
    assert (other.cells, other.values, other.look_ups, other.map_rams) == (0, 0, 2, 4 * 2)
    assert other.srams == other.map_rams + 34 + 2


def test_counts_of_a_push_by_hand() -> None:
    """A frame of 42 bytes, the header, and for rows of 16 a key of 8 bytes and 64 of values."""
    counts = {each.program: each for each in program_counts()}
    assert [each.rows for each in counts.values()] == [131_072, 32_768] * 2
    of_rows = counts["Tofino 1, rows of 16"]
    assert 16 * of_rows.push_bytes_a_value == 42 + layout(32).size + 8 + 64
    assert (of_rows.values, of_rows.map_rams, of_rows.fullest_stage_map_rams) == (524_288, 212, 46)


@pytest.mark.parametrize("count", list(program_counts()), ids=lambda count: count.program)
def test_the_counted_memory_fits_into_a_stage(count: ProgramCount) -> None:
    assert count.fullest_stage_map_rams <= STAGE_MAP_RAMS
    assert count.fullest_stage_map_rams + 4 * VALUES_OF_STAGE <= STAGE_SRAMS


def test_no_more_rows_fit_into_four_stages_of_values() -> None:
    assert rows_of_16(32_768 + 4_096, 1024).fullest_stage_map_rams == 51 > STAGE_MAP_RAMS
    # With rows of one value and rows of 16 in one program, all cells are pairs.
    both = ProgramSize(lookups=16, values=16, slots=16_384, callers=1024, bitmap_bits=32)
    assert both.fullest_stage_map_rams <= STAGE_MAP_RAMS
    assert both._replace(slots=32_768).fullest_stage_map_rams > STAGE_MAP_RAMS


def test_fewer_callers_take_fewer_blocks() -> None:
    assert [(each.callers, each.lanes, each.rows) for each in caller_counts()] == [
        (1_024, 42, 50), (512, 22, 26), (256, 12, 14), (64, 5, 5)
    ]  # fmt: skip


@pytest.mark.parametrize(("twin", "lanes", "callers"), [("tofino_16", 16, 1024), ("tofino_row", 32, 16)])
def test_a_twin_has_the_cells_of_its_callers(twin: str, lanes: int, callers: int) -> None:
    program, _ = code_of(TWINS / f"{twin}.json")
    cells = {each.name.rpartition("exactly_once.")[2]: (each.size, each.width) for each in program.registers}
    assert cells["cells"] == (callers * 64, 64) and cells["bitmaps"] == (callers * 64, lanes)
