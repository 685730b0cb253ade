"""Counters, meters, registers and value sets in the shared memory."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.checks import check_counter, check_index, check_meter, check_value, check_value_set
from softswitch.memory.layout import COUNTER_WORDS, METER_WORDS, CellArray, Layout
from softswitch.memory.rows import Words
from softswitch.memory.words import WORD, WORD_BYTES, split_words
from softswitch.pipeline import CounterValue, MeterConfig
from softswitch.state.memory import Memory

_US_PER_S = 1e6


def meter_words(config: MeterConfig | None) -> list[int]:
    """Encode a meter with full buckets; None gives one that is always green (BMv2 meters.cpp `set_rate`)."""
    if config is None:
        return [0] * METER_WORDS
    check_meter(config)
    words = [1]  # configured
    rates = (config.peak_rate, config.peak_burst), (config.committed_rate, config.committed_burst)
    for rate, burst in rates:
        rate_bits = int.from_bytes(struct.pack("<d", rate / _US_PER_S), "little")  # a double, in units/µs
        # Of a token bucket: rate, size, tokens, tokens generated since the start.
        words += [rate_bits, burst, burst, 0]
    return words


def _bytes_of(words: Sequence[int]) -> bytes:
    return np.array(words, dtype=np.uint64).tobytes()


class Cells:
    """Counters, meters, registers and value sets of a program by name. Each operation takes the lock once."""

    def __init__(self, program: ir.Program, layout: Layout, memory: Memory) -> None:
        self._program = program
        self._layout = layout
        self._memory = memory
        self._counters = {counter.name: i for i, counter in enumerate(program.counters)}
        self._meters = {meter.name: i for i, meter in enumerate(program.meters)}
        self._registers = {register.name: i for i, register in enumerate(program.registers)}
        self._value_sets = {value_set.name: i for i, value_set in enumerate(program.value_sets)}

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        index = self._counters[name]
        stop = min(stop, self._program.counters[index].size)
        size = COUNTER_WORDS * WORD_BYTES
        octets = self._read(self._layout.counters[index], size, start, stop)
        words = octets.view(np.uint64).ravel().tolist()
        return CounterValue.from_cells(zip(words[::2], words[1::2], strict=True))

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        counter = self._counters[name]
        check_index(name, index, self._program.counters[counter].size)
        check_counter(value)
        self._store(self._layout.counters[counter], index, _bytes_of(value))

    def fill_counter(self, name: str, value: CounterValue) -> None:
        counter = self._counters[name]
        check_counter(value)
        size = self._program.counters[counter].size
        self._store(self._layout.counters[counter], 0, _bytes_of(value), size)

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None:
        meter = self._meters[name]
        check_index(name, index, self._program.meters[meter].size)
        self._store(self._meter_cells(meter), index, _bytes_of(meter_words(config)))

    def fill_meter(self, name: str, config: MeterConfig | None) -> None:
        meter = self._meters[name]
        size = self._program.meters[meter].size
        self._store(self._meter_cells(meter), 0, _bytes_of(meter_words(config)), size)

    def _meter_cells(self, meter: int) -> CellArray:
        return CellArray(self._layout.meters[meter] * WORD_BYTES, METER_WORDS * WORD_BYTES)

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        register = self._registers[name]
        definition = self._program.registers[register]
        size = self._layout.register_bytes(definition.width)
        stop = min(stop, definition.size)
        octets = self._read(self._layout.registers[register], size, start, stop)
        words = octets.view(f"<u{min(size, WORD_BYTES)}")  # [cell, word]
        values: list[int] = words[:, 0].tolist()
        if words.shape[1] > 1:
            for cell, word in np.argwhere(words[:, 1:]).tolist():  # in most states few
                values[cell] |= int(words[cell, word + 1]) << WORD * (word + 1)
        return values

    def read_register_cells(
        self, names: Sequence[str], registers: npt.NDArray[np.int64], indexes: npt.NDArray[np.int64]
    ) -> Words:
        """Return cell `indexes[i]` of the register `names[registers[i]]` for all i; of up to 64 bits each."""
        numbers = [self._registers[name] for name in names]
        definitions = [self._program.registers[number] for number in numbers]
        first, step = np.array([self._layout.registers[number] for number in numbers]).T
        size = np.array([self._layout.register_bytes(each.width) for each in definitions])
        n_cells = np.array([each.size for each in definitions])
        for i in np.flatnonzero((indexes < 0) | (indexes >= n_cells[registers])).tolist():
            check_index(names[registers[i]], int(indexes[i]), int(n_cells[registers[i]]))
        words, octets = np.divmod(first[registers] + step[registers] * indexes, WORD_BYTES)
        # Shifted left, then right, a word has the bits of the cell only.
        above = (8 * (WORD_BYTES - size[registers] - octets)).astype(np.uint64)
        other_bits = (8 * (WORD_BYTES - size[registers])).astype(np.uint64)
        with self._memory.locked():
            values = self._memory.words[words]
        result: Words = values << above >> other_bits
        return result

    def _read(self, cells: CellArray, size: int, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Return the bytes of cells `start` to `stop` - 1 [cell, byte]; each cell is read atomically."""
        if start >= stop:
            return np.empty((0, size), np.uint8)
        with self._memory.locked():
            octets = self._memory.read_cells(cells.at(start), cells.step, stop - start, size)
        return np.ascontiguousarray(octets)

    def write_register(self, name: str, index: int, value: int) -> None:
        register = self._registers[name]
        definition = self._program.registers[register]
        check_index(name, index, definition.size)
        self._store(self._layout.registers[register], index, self._register_value(definition, value))

    def fill_register(self, name: str, value: int) -> None:
        register = self._registers[name]
        definition = self._program.registers[register]
        cells = self._layout.registers[register]
        self._store(cells, 0, self._register_value(definition, value), definition.size)

    def _register_value(self, definition: ir.Register, value: int) -> bytes:
        check_value(definition.name, value, definition.width)
        return value.to_bytes(self._layout.register_bytes(definition.width), "little")

    def _store(self, cells: CellArray, first: int, data: bytes, count: int = 1) -> None:
        """Store `data` in `count` cells."""
        with self._memory.locked():
            self._memory.store_cells(cells.at(first), cells.step, count, data)

    def write_value_set(self, name: str, members: Sequence[tuple[int, ...]]) -> None:
        number = self._value_sets[name]
        definition, count = self._program.value_sets[number], self._layout.value_words[number]
        check_value_set(definition, members)
        words: list[int] = [len(members)]
        for member in members:
            words += split_words(ir.join_key(member, definition.widths), count)
        offset = self._layout.value_sets[number]
        with self._memory.locked():
            self._memory.store(offset, words)
