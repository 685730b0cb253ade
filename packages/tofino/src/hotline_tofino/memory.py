"""Memory that the program takes in a pipe: blocks of SRAM, of map RAM, and rows that fit.

The sizes of tables and registers are those of the P4 text, and the rules those of the chip. What the rules do
not say, `_OTHER_SRAMS` and `_SRAMS_OF_VALUE`, was read from the compiler's reports for rows of one value.
Tests compare all numbers with the reports: map RAM is exact, SRAM is within `SRAM_ERROR` blocks. Which values
share a stage is an assumption: the compiler spreads them over more stages, so more rows fit than is counted.

`python -m hotline_tofino.memory` prints the counts of the README as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from foundation.protocol.frames import FRAME_OVERHEAD
from foundation.protocol.header import KEY_BYTES, VALUE_BYTES, WINDOW_BITS, layout

BLOCK_BITS = 1024 * 128
"""Bits of a block of SRAM; a register also takes a map RAM for each."""
STAGE_MAP_RAMS = 48
STAGE_SRAMS = 80
VALUES_OF_STAGE = 4  # a stage has four stateful ALUs
SRAM_ERROR, SRAM_ERROR_OF_ROWS = 2, 8
"""Blocks by which the count may differ from the compiler's report: for rows of one value, and of 16."""
_WORD_BITS, _PAIR_BITS = 32, 64
_SERVERS = 256  # of table `servers` of the P4 text
_COUNTERS = 4  # `drops`, `duplicates`, `rpcs`, `relayed`
_COUNTER_BLOCKS = 2
_ENTRIES_OF_BLOCK = 1024  # an entry of a look-up takes a word of 128 bits
_SRAMS_OF_VALUE = 4  # the table `aggregate` of a value
_OTHER_SRAMS = 34  # the other tables


class ProgramSize(NamedTuple):
    """Sizes that are fixed when the program is compiled."""

    lookups: int
    values: int
    """Register arrays: as many as look-ups for rows of one value, or 16."""
    slots: int
    """Entries of a look-up, and cells of an array."""
    callers: int
    bitmap_bits: int

    @property
    def rows(self) -> int:
        return self.lookups * self.slots

    @property
    def cell_blocks(self) -> int:
        """Blocks of the exactly-once cells: epoch and turn in one register, the bitmap in another."""
        cells = self.callers << WINDOW_BITS
        return register_blocks(cells, _PAIR_BITS) + register_blocks(cells, self.bitmap_bits)

    @property
    def map_rams(self) -> int:
        counters = (_COUNTERS + self.lookups) * _COUNTER_BLOCKS
        return self.cell_blocks + counters + self._value_blocks

    @property
    def srams(self) -> int:
        """Blocks of SRAM, those with map RAMs included."""
        look_ups = self.lookups * -(-self.slots // _ENTRIES_OF_BLOCK)
        return self.map_rams + look_ups + self.values * _SRAMS_OF_VALUE + _OTHER_SRAMS

    @property
    def _value_blocks(self) -> int:
        # Each look-up has one array whose cells also count pushes.
        pairs = self.lookups * register_blocks(self.slots, _PAIR_BITS)
        return pairs + (self.values - self.lookups) * register_blocks(self.slots, _WORD_BITS)

    @property
    def fullest_stage_map_rams(self) -> int:
        """Map RAMs of the stage of values that has most, with their counters of hits and misses."""
        pairs = min(self.lookups, VALUES_OF_STAGE)
        words = VALUES_OF_STAGE - pairs
        of_pair = register_blocks(self.slots, _PAIR_BITS) + _COUNTER_BLOCKS
        return pairs * of_pair + words * register_blocks(self.slots, _WORD_BITS)


def register_blocks(cells: int, bits: int) -> int:
    """Return the blocks of a register: those of its cells and a spare one."""
    return -(-cells * bits // BLOCK_BITS) + 1


def single_values(lanes: int, slots: int, callers: int) -> ProgramSize:
    """Return the size of the program for rows of one value."""
    return ProgramSize(lanes, lanes, slots, callers, max(lanes, 8))


def rows_of_16(slots: int, callers: int) -> ProgramSize:
    """Return the size of the program for rows of 16 values, whose bitmaps are those of agents."""
    return ProgramSize(1, 16, slots, callers, 32)


CALLER_BITS = {1: 10, 2: 9}
"""Number of the chip, 1 or 2, -> log2 of the number of callers."""
_LANES, _SLOTS_OF_LANE, _SLOTS_OF_ROWS = 16, 8_192, 32_768


class ProgramCount(NamedTuple):
    """Rows and memory of one program."""

    program: str
    rows: int
    values: int
    push_bytes_a_value: float
    """Bytes of the frame of a full push, a value."""
    srams: int
    map_rams: int
    fullest_stage_map_rams: int


def program_counts() -> Iterator[ProgramCount]:
    for chip, bits in CALLER_BITS.items():
        lanes = single_values(_LANES, _SLOTS_OF_LANE, 1 << bits)
        yield _count(f"Tofino {chip}, rows of 1, {_LANES} lanes", lanes)
        yield _count(f"Tofino {chip}, rows of 16", rows_of_16(_SLOTS_OF_ROWS, 1 << bits))


def _count(program: str, size: ProgramSize) -> ProgramCount:
    values = size.values // size.lookups
    lane_bytes = size.lookups * (KEY_BYTES + values * VALUE_BYTES)
    push = FRAME_OVERHEAD + layout(size.bitmap_bits).size + lane_bytes
    return ProgramCount(
        program, size.rows, size.rows * values, push / size.values, size.srams, size.map_rams,
        size.fullest_stage_map_rams,
    )  # fmt: skip


class CallerCount(NamedTuple):
    """Blocks of SRAM of the exactly-once cells for a number of callers, by program."""

    callers: int
    bits: int
    lanes: int
    rows: int


def caller_counts() -> Iterator[CallerCount]:
    for bits in (10, 9, 8, 6):
        callers = 1 << bits
        yield CallerCount(
            callers, bits, single_values(_LANES, _SLOTS_OF_LANE, callers).cell_blocks,
            rows_of_16(_SLOTS_OF_ROWS, callers).cell_blocks,
        )  # fmt: skip


class NetworkRoleCount(NamedTuple):
    """Blocks of a switch of a network by its role, for rows of one value in 16 lanes."""

    role: str
    cells: int
    """Map RAMs of the exactly-once cells."""
    values: int
    """Map RAMs of the values of hot rows."""
    look_ups: int
    """Blocks of SRAM of the look-ups of hot keys, and of the tables that pass packets on."""
    map_rams: int
    srams: int


def network_role_counts() -> Iterator[NetworkRoleCount]:
    """Yield what a single switch has, and a home and another switch of a network of leaves and spines.

    A switch of a network has two more exact tables: the port of each caller, and of the home of each server.
    A switch that is nobody's home needs neither cells nor hot rows.
    """
    size = single_values(_LANES, _SLOTS_OF_LANE, 1 << CALLER_BITS[1])
    of_values = size.map_rams - size.cell_blocks
    look_ups = size.lookups * -(-size.slots // _ENTRIES_OF_BLOCK)
    passing_on = -(-size.callers // _ENTRIES_OF_BLOCK) + -(-_SERVERS // _ENTRIES_OF_BLOCK)
    yield NetworkRoleCount(
        "the only switch", size.cell_blocks, of_values, look_ups, size.map_rams, size.srams
    )
    yield NetworkRoleCount(
        "home", size.cell_blocks, of_values, look_ups + passing_on, size.map_rams, size.srams + passing_on
    )
    counters = _COUNTERS * _COUNTER_BLOCKS
    yield NetworkRoleCount(
        "passes packets on", 0, 0, passing_on, counters, counters + passing_on + _OTHER_SRAMS
    )


if __name__ == "__main__":
    counts = {
        "roles": [each._asdict() for each in network_role_counts()],
        "programs": [each._asdict() for each in program_counts()],
        "callers": [each._asdict() for each in caller_counts()],
    }
    print(json.dumps(counts, indent=2))
