"""The count of a program's memory, beside the compiler's reports and the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from foundation.protocol.header import KEY_BYTES, VALUE_BYTES, layout
from hotline_tofino.memory import (
    SRAM_ERROR,
    STAGE_MAP_RAMS,
    STAGE_SRAMS,
    VALUES_OF_STAGE,
    ProgramSize,
    rows_of_16,
    single_values,
)
from packages.tofino.tests.harness.twins import TWINS
from tests.harness.testnet import code_of

PAGE = (Path(__file__).parents[2] / "README.md").read_text()
CALLERS = {1: 1024, 2: 512}
_HEADERS = 14 + 20 + 8
_COMPILED = re.compile(
    r"^\| Tofino (\d), (\d+) lanes, ([\d,]+) slots \| \d+ \| (\d+) \| (\d+) \|", re.MULTILINE
)
_COUNTED = re.compile(r"^\| Tofino (\d), rows of (1, 16 lanes|16) \| (.*) \|$", re.MULTILINE)
_OF_CALLERS = re.compile(r"^\| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("row", _COMPILED.findall(PAGE), ids="-".join)
def test_the_count_is_what_the_compiler_reported(row: tuple[str, ...]) -> None:
    chip, lanes, slots, srams, map_rams = map(_number, row)
    size = single_values(lanes, slots // lanes, CALLERS[chip])
    assert (size.rows, size.map_rams) == (slots, map_rams)
    assert abs(size.srams - srams) <= SRAM_ERROR


def test_all_compiled_programs_are_compared() -> None:
    assert len(_COMPILED.findall(PAGE)) == 7 and len(_COUNTED.findall(PAGE)) == 4


@pytest.mark.parametrize("row", _COUNTED.findall(PAGE), ids="-".join)
def test_the_page_has_what_fits(row: tuple[str, str, str]) -> None:
    chip, kind, numbers = row
    callers = CALLERS[int(chip)]
    size = rows_of_16(32_768, callers) if kind == "16" else single_values(16, 8_192, callers)
    values = size.values // size.lookups
    push = _HEADERS + layout(size.bitmap_bits).size + size.lookups * (KEY_BYTES + values * VALUE_BYTES)
    found = [
        f"{size.rows:,}", f"{size.rows * values:,}", f"{push / size.values:.1f}",
        str(size.srams), str(size.map_rams), str(size.fullest_stage_map_rams),
    ]  # fmt: skip
    assert numbers.split(" | ") == found
    assert size.fullest_stage_map_rams <= STAGE_MAP_RAMS
    assert size.fullest_stage_map_rams + 4 * VALUES_OF_STAGE <= STAGE_SRAMS


def test_no_more_rows_fit_into_a_stage() -> None:
    assert rows_of_16(32_768 + 4_096, 1024).fullest_stage_map_rams == 51 > STAGE_MAP_RAMS
    # With rows of one value and rows of 16 in one program, all cells are pairs.
    both = ProgramSize(lookups=16, values=16, slots=16_384, callers=1024, bitmap_bits=32)
    assert both.fullest_stage_map_rams <= STAGE_MAP_RAMS
    assert both._replace(slots=32_768).fullest_stage_map_rams > STAGE_MAP_RAMS


@pytest.mark.parametrize("row", _OF_CALLERS.findall(PAGE), ids="-".join)
def test_the_page_has_the_cells_of_fewer_callers(row: tuple[str, ...]) -> None:
    callers, bits, of_lanes, of_rows = map(_number, row)
    assert callers == 1 << bits
    assert single_values(16, 8_192, callers).cell_blocks == of_lanes
    assert rows_of_16(32_768, callers).cell_blocks == of_rows


@pytest.mark.parametrize(("twin", "lanes", "callers"), [("tofino_16", 16, 1024), ("tofino_row", 32, 16)])
def test_a_twin_has_the_cells_of_its_callers(twin: str, lanes: int, callers: int) -> None:
    program, _ = code_of(TWINS / f"{twin}.json")
    cells = {each.name.rpartition("exactly_once.")[2]: (each.size, each.width) for each in program.registers}
    assert cells["cells"] == (callers * 64, 64) and cells["bitmaps"] == (callers * 64, lanes)
