"""The fast `Pipeline`: the program as machine code, with its state in one block of memory.

The packet function runs without the GIL wherever it is called from compiled code (`ports.loop`). Data plane
and control plane take turns by a mutex: the one holds it for a burst, the other for one operation.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from softswitch import ir, state
from softswitch.codegen.layout import WORD, TableLayout, words_of
from softswitch.errors import EntryExists, EntryMissing, StateError, TableFull
from softswitch.jit import MachineCode
from softswitch.pipeline import ActionCall, Change, CounterValue, EntryWrite, Output

OUT_CAPACITY = 1 << 17
MUTEX_BYTES = 64
WORD_MASK = (1 << WORD) - 1

CHANGES = {Change.INSERT: state.INSERT, Change.MODIFY: state.MODIFY, Change.DELETE: state.DELETE}

_libc = ctypes.CDLL(None, use_errno=True)


class CompiledPipeline:
    """A `Pipeline` in machine code. `code` may be that of another pipeline of the same program."""

    def __init__(self, program: ir.Program, code: MachineCode | None = None) -> None:
        self.program = program
        self.code = code or MachineCode(program)
        self.layout = self.code.layout
        self.process_address = self.code.process_address

        self._memory = mmap.mmap(-1, max(1, self.layout.words) * 8)
        self._words = np.frombuffer(self._memory, dtype=np.uint64)
        self.state_address: int = self._words.ctypes.data
        lock = np.zeros(MUTEX_BYTES // 8 + 1, dtype=np.uint64)
        self._waiting = lock[-1:]
        self.mutex_address: int = lock.ctypes.data
        self.waiting_address: int = self._waiting.ctypes.data
        _libc.pthread_mutex_init(ctypes.c_void_p(self.mutex_address), None)
        self._control = threading.Lock()
        self._out = ctypes.create_string_buffer(OUT_CAPACITY)

        self._rows = {name: i for i, name in enumerate(self.layout.tables)}
        self._descriptors = np.array(
            [state.describe(table) for table in self.layout.tables.values()], dtype=np.int64
        ).reshape(-1, state.COLUMNS)
        self._counter_index = {counter.name: i for i, counter in enumerate(program.counters)}
        self._register_index = {register.name: i for i, register in enumerate(program.registers)}
        self._action_index = {
            (name, program.actions[index].name): index
            for name, table in program.tables.items()
            for index in reversed(table.actions)
        }
        self._install_defaults()

    def _install_defaults(self) -> None:
        ops = [
            self._encode(state.INSERT, name, entry.key, entry.priority, entry.invocation)
            for name, table in self.program.tables.items()
            for entry in table.const_entries
        ]
        self._run(ops)
        for name, table in self.program.tables.items():
            self._store_default(self.layout.tables[name], table.default)

    # -- packets

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame (`Pipeline.process`)."""
        with self._locked():
            count = self.code.process(
                self.state_address, port, frame, len(frame), t_in, now, self._out, OUT_CAPACITY
            )
            data = self._out.raw[: OUT_CAPACITY if count > 1 else len(frame) + 65536] if count else b""
        outputs, at = [], 0
        for _ in range(count):
            out_port = int.from_bytes(data[at : at + 4], "little")
            length = int.from_bytes(data[at + 4 : at + 8], "little")
            outputs.append(Output(out_port, data[at + 8 : at + 8 + length]))
            at += 8 + -(-length // 8) * 8
        return outputs

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep the data plane out; for short reads and writes of single cells."""
        with self._control:
            self._waiting[0] = 1
            _libc.pthread_mutex_lock(ctypes.c_void_p(self.mutex_address))
            try:
                yield
            finally:
                _libc.pthread_mutex_unlock(ctypes.c_void_p(self.mutex_address))
                self._waiting[0] = 0

    # -- tables

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply writes in order as one batch (`Pipeline.write_entries`)."""
        ops = [self._encode_write(write) for write in writes]
        results = self._run(ops)
        return [
            None if result == state.DONE else self._error(write, int(result))
            for write, result in zip(writes, results, strict=True)
        ]

    def _encode_write(self, write: EntryWrite) -> list[int]:
        if write.action is None:
            return self._encode(CHANGES[write.change], write.table, write.key, write.priority, None)
        index = self._action_index.get((write.table, write.action.name))
        if index is None or len(write.action.args) != len(self.program.actions[index].parameters):
            self.program.invocation(self.program.tables[write.table], write.action.name, write.action.args)
        assert index is not None
        invocation = ir.Invocation(index, write.action.args)
        return self._encode(CHANGES[write.change], write.table, write.key, write.priority, invocation)

    def _encode(
        self,
        change: int,
        table: str,
        key: tuple[ir.Match, ...],
        priority: int,
        invocation: ir.Invocation | None,
    ) -> list[int]:
        layout = self.layout.tables[table]
        match_words = _ranked_words if layout.is_ranked else _exact_words
        op = [change, self._rows[table], *match_words(layout, key, priority)]
        return op if invocation is None else op + self._values(invocation)

    def _values(self, invocation: ir.Invocation) -> list[int]:
        widths = self.program.actions[invocation.action].parameters
        values = [invocation.action]
        for value, width in zip(invocation.args, widths, strict=True):
            values += _split(value, words_of(width))
        return values

    def _run(self, ops: list[list[int]]) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
        results = np.zeros(len(ops), dtype=np.int8)
        starts = np.zeros(len(ops) + 1, dtype=np.int64)
        np.cumsum([len(op) for op in ops], out=starts[1:])
        flat = np.array([value for op in ops for value in op], dtype=np.uint64)
        with self._control:
            state.write_entries(
                self._words, self._descriptors, flat, starts, results, self.mutex_address, self._waiting
            )
        return results

    def _error(self, write: EntryWrite, result: int) -> Exception:
        if result == state.EXISTS:
            return EntryExists(f"table {write.table} has an entry {write.key} already")
        if result == state.MISSING:
            return EntryMissing(f"table {write.table} has no entry {write.key}")
        size = self.program.tables[write.table].size
        return TableFull(f"table {write.table} is full: it holds its {size} entries")

    def set_default(self, table: str, action: ActionCall | None) -> None:
        """Replace or restore a table's default action (`Pipeline.set_default`)."""
        declared = self.program.tables[table]
        if declared.default_is_const and action is not None:
            raise StateError(f"the default action of table {table} is constant")
        invocation = (
            declared.default
            if action is None
            else self.program.invocation(declared, action.name, action.args)
        )
        with self._locked():
            self._store_default(self.layout.tables[table], invocation)

    def _store_default(self, layout: TableLayout, invocation: ir.Invocation) -> None:
        action, *parameters = self._values(invocation)
        self._words[layout.default + layout.action] = action
        start = layout.default + layout.parameters
        self._words[start : start + len(parameters)] = parameters

    def entry_counter(self, table: str, key: tuple[ir.Match, ...], priority: int = 0) -> CounterValue:
        """Read an entry's direct counter (`Pipeline.entry_counter`)."""
        with self._locked():
            cell = self._entry_counter(table, key, priority)
            return CounterValue(int(self._words[cell]), int(self._words[cell + 1]))

    def set_entry_counter(
        self, table: str, key: tuple[ir.Match, ...], value: CounterValue, priority: int = 0
    ) -> None:
        """Write an entry's direct counter (`Pipeline.set_entry_counter`)."""
        with self._locked():
            cell = self._entry_counter(table, key, priority)
            self._words[cell : cell + 2] = value

    def _entry_counter(self, table: str, key: tuple[ir.Match, ...], priority: int) -> int:
        layout = self.layout.tables[table]
        op = np.array(self._encode(0, table, key, priority, None)[2:], dtype=np.uint64)
        record = int(state.find_record(self._words, self._descriptors[self._rows[table]], op))
        if record < 0:
            raise EntryMissing(f"table {table} has no entry {key}")
        return record + layout.counter

    # -- counters and registers

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Read counter cells (`Pipeline.read_counter`)."""
        index = self._counter_index[name]
        base = self.layout.counters[index]
        stop = min(stop, self.program.counters[index].size)
        with self._locked():
            cells = self._words[base + 2 * start : base + 2 * stop].tolist()
        return [CounterValue(*cell) for cell in zip(cells[::2], cells[1::2], strict=True)]

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        """Write a counter cell (`Pipeline.write_counter`)."""
        base = self.layout.counters[self._counter_index[name]] + 2 * index
        with self._locked():
            self._words[base : base + 2] = value

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        """Read register cells (`Pipeline.read_register`)."""
        register = self._register_index[name]
        size = self.layout.register_bytes(self.program.registers[register].width)
        at = self.layout.registers[register] * 8
        stop = min(stop, self.program.registers[register].size)
        with self._locked():
            data = self._memory[at + start * size : at + stop * size]
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def write_register(self, name: str, index: int, value: int) -> None:
        """Write a register cell (`Pipeline.write_register`)."""
        register = self._register_index[name]
        size = self.layout.register_bytes(self.program.registers[register].width)
        at = self.layout.registers[register] * 8 + index * size
        with self._locked():
            self._memory[at : at + size] = value.to_bytes(size, "little")


def _split(value: int, count: int) -> list[int]:
    """An integer as `count` words, least significant first."""
    if count == 1:
        return [value]
    return [value >> (WORD * i) & WORD_MASK for i in range(count)]


def _exact_words(layout: TableLayout, key: tuple[ir.Match, ...], _priority: int) -> list[int]:
    joined = 0
    for value, part in zip(key, layout.table.key, strict=True):
        assert isinstance(value, int)
        joined = joined << part.width | value
    return _split(joined, layout.key_words)


def _ranked_words(layout: TableLayout, key: tuple[ir.Match, ...], priority: int) -> list[int]:
    """Value and mask of all fields joined, the rank, and low and high of each range."""
    value = mask = 0
    bounds: list[int] = []
    for match, part in zip(key, layout.table.key, strict=True):
        value, mask = value << part.width, mask << part.width
        match match:
            case ir.Masked(wanted, care):
                value, mask = value | wanted, mask | care
            case ir.Between(low, high):
                count = words_of(part.width)
                bounds += _split(low, count) + _split(high, count)
            case exact:
                value, mask = value | exact, mask | ((1 << part.width) - 1)
    words = layout.field_words
    return [*_split(value, words), *_split(mask, words), layout.table.rank(key, priority), *bounds]
