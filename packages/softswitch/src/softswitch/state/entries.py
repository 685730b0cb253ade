"""Entries of tables: batches of writes, and reading back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nativekit.records import Records
from softswitch import ir
from softswitch.checks import check_action, check_counter, check_default, table_full
from softswitch.errors import EntryExists, EntryMissing
from softswitch.memory.coding import data_words, match_words, read_data, read_key
from softswitch.memory.layout import COUNTER_WORDS, ENTRIES, FREE_RECORD, NO_ACTION, USED, Layout, TableLayout
from softswitch.memory.rows import Row, Words, rows
from softswitch.pipeline import (
    ActionCall,
    Change,
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    StoredEntry,
)
from softswitch.state import write
from softswitch.state.cells import meter_words
from softswitch.state.chains import Chains
from softswitch.state.memory import Memory
from softswitch.state.profiles import MemberOrGroup, Profile

_NO_HINTS = np.empty((0, 2), dtype=np.int64)
CHANGES = {Change.INSERT: write.INSERT, Change.MODIFY: write.MODIFY, Change.DELETE: write.DELETE}
Offsets = npt.NDArray[np.int64]


class _EncodedKeys(NamedTuple):
    """Keys of entries, encoded for compiled code (`write.find_records`) or for the index of chains."""

    ops: Words
    starts: Offsets
    positions: list[int]
    """Position of each operation's entry among all."""
    ranged: list[tuple[int, str, list[int]]]
    """Position, table and match words of each other entry."""


class Entries:
    """The tables of a program (`softswitch.pipeline.TableOps`, which documents methods without docstrings).

    Keys are encoded before the lock is taken,
    and compiled code looks them up while it is held. `table_rows` are those of the layout's tables, if
    several pipelines share them.
    """

    def __init__(
        self, program: ir.Program, layout: Layout, memory: Memory, profiles: Sequence[Profile],
        table_rows: Records[Row] | None = None,
    ) -> None:  # fmt: skip
        self._program = program
        self._layout = layout
        self._memory = memory
        self._profiles = profiles
        # Indices in `_tables`, by the table's name.
        self._rows = {name: i for i, name in enumerate(layout.tables)}
        self._tables = rows(layout.tables.values()) if table_rows is None else table_rows
        self._chains = {name: Chains(table, memory) for name, table in layout.tables.items() if table.ranges}
        self._chains_by_row = {self._rows[name]: chains for name, chains in self._chains.items()}
        self.chain_steps = 0
        """Steps in chains of entries by all writes, which show whether their time is quadratic."""
        self._count_offsets = np.array(
            [table_layout.header + ENTRIES for table_layout in layout.tables.values()], dtype=np.int64
        )
        self._install_const_entries()
        # Compile these functions now: later they would be compiled with the mutex held, which stops packets.
        self._look_up(self._encode_keys([]))
        self.apply_all_or_none(*_concatenate([]))

    def _install_const_entries(self) -> None:
        ops: list[list[int]] = []
        with self._memory.locked():
            for name in self._program.tables:
                self._store_default(name, self._default_words(name, None))
        for name, table in self._program.tables.items():
            for entry in table.const_entries:
                words = match_words(self._layout.tables[name], entry.key, entry.priority)
                data = data_words(self._program, entry.invocation)
                ops.append([write.INSERT, self._rows[name], *words, *data])
        self._apply_ops(ops)

    # -- writes

    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        results = self._apply_ops([self._encode_write(entry) for entry in writes])
        if not results.any():
            return [None] * len(writes)
        return [
            None if result == write.DONE else self._make_error(entry, int(result))
            for entry, result in zip(writes, results, strict=True)
        ]

    def apply_all_or_none(self, ops: Words, starts: Offsets) -> bool:
        """Apply operations on exact tables as a batch; if one is impossible, apply none and return False."""
        # A second operation on the same key is impossible, too.
        memory, count = self._memory, len(starts) - 1
        with memory.control_lock:
            entry_counts = memory.words[self._count_offsets].astype(np.int64)
            # A hash table that is at most half full.
            seen_ops = np.zeros(1 << (2 * count).bit_length(), dtype=np.int32)
            if not write.can_apply_all(memory.words, self._tables, ops, starts, entry_counts, seen_ops):
                return False
            results = np.zeros(count, dtype=np.int8)
            self._apply(ops, starts, results, _NO_HINTS, np.zeros(count + 1, dtype=np.int64))
        assert not results.any()
        return True

    def row_of(self, table: str) -> int:
        return self._rows[table]

    def key_words(self, table: str) -> int:
        return self._layout.tables[table].key_words

    def invocation(self, table: str, call: ActionCall) -> ir.Invocation:
        return self._program.invocation(self._program.tables[table], call.name, call.args)

    def _encode_write(self, entry: EntryWrite) -> list[int]:
        words = match_words(self._layout.tables[entry.table], entry.key, entry.priority)
        op = [CHANGES[entry.change], self._rows[entry.table], *words]
        return op if entry.action is None else op + self._action_words(entry.table, entry.action)

    def _action_words(self, table: str, action: EntryAction) -> list[int]:
        table_definition = self._program.tables[table]
        resolved_action = check_action(self._program, table_definition, action)
        if isinstance(resolved_action, ir.Invocation):
            return data_words(self._program, resolved_action)
        assert table_definition.profile is not None
        return [self._profiles[table_definition.profile].reference(resolved_action)]

    def _apply_ops(self, ops: list[list[int]]) -> npt.NDArray[np.int8]:
        results = np.zeros(len(ops), dtype=np.int8)
        numbers = np.zeros(len(ops) + 1, dtype=np.int64)
        words, starts = _concatenate(ops)
        ranged = [(i, op) for i, op in enumerate(ops) if op[1] in self._chains_by_row]
        if not ranged:
            self._apply(words, starts, results, _NO_HINTS, numbers)
            return results
        chains = [self._chains_by_row[op[1]] for _, op in ranged]
        hints = np.full((len(ops), 2), write.NO_HINT, dtype=np.int64)
        expected = []
        for table in set(chains):
            table.begin()
        for (i, op), table in zip(ranged, chains, strict=True):
            *hints[i], result = table.plan(op[0], table.match_words(op), i)
            expected.append(result)
        self._apply(words, starts, results, hints, numbers)
        if [int(results[i]) for i, _ in ranged] == expected:
            for (i, op), table in zip(ranged, chains, strict=True):
                if numbers[i]:
                    table.confirm(table.match_words(op), int(numbers[i]))
            for table in set(chains):
                table.end()
        return results

    def invalidate_chains(self) -> None:
        """Read the index of chains again, after the memory has been replaced."""
        for chains in self._chains.values():
            chains.invalidate()

    def _apply(
        self,
        ops: Words,
        starts: Offsets,
        results: npt.NDArray[np.int8],
        hints: npt.NDArray[np.int64],
        numbers: npt.NDArray[np.int64],
    ) -> None:
        memory = self._memory
        with memory.changing() as words:
            tables = self._logged_tables if memory.is_logging else self._tables
            mutex = memory.free_mutex_address
            write.write_entries(words, tables, ops, starts, results, hints, numbers, mutex, memory.waiting)
        self.chain_steps += int(numbers[-1])

    @cached_property
    def _logged_tables(self) -> Records[Row]:
        return rows(self._layout.tables.values(), log=self._memory.log.ctypes.data)

    def _make_error(self, entry: EntryWrite, result: int) -> Exception:
        if result == write.EXISTS:
            return EntryExists(f"table {entry.table} has an entry {entry.key} already")
        if result == write.MISSING:
            return EntryMissing(f"table {entry.table} has no entry {entry.key}")
        return table_full(self._program.tables[entry.table])

    def set_default(self, table: str, action: EntryAction | None) -> None:
        check_default(self._program.tables[table], action)
        words = self._default_words(table, action)
        with self._memory.locked():
            self._store_default(table, words)

    def _default_words(self, table: str, action: EntryAction | None) -> list[int]:
        """Return the words of an action, or of the program's default action, as a default record has them."""
        table_definition = self._program.tables[table]
        if action is not None:
            return self._action_words(table, action)
        if table_definition.default is not None and table_definition.profile is None:
            return data_words(self._program, table_definition.default)
        # 0 refers to no member or group of the profile.
        return [0 if table_definition.profile is not None else NO_ACTION]

    def _store_default(self, table: str, words: list[int]) -> None:  # the lock must be held
        layout = self._layout.tables[table]
        self._memory.store(layout.default + layout.action, words[:1])
        if len(words) > 1:
            self._memory.store(layout.default + layout.parameters, words[1:])

    # -- finding entries: encoded before the lock is taken, looked up by compiled code while it is held

    def _encode_keys(self, entries: Sequence[EntryKey]) -> _EncodedKeys:
        hashed: list[list[int]] = []
        positions: list[int] = []
        ranged: list[tuple[int, str, list[int]]] = []
        for position, entry in enumerate(entries):
            words = match_words(self._layout.tables[entry.table], entry.key, entry.priority)
            if entry.table in self._chains:
                ranged.append((position, entry.table, words))
            else:
                hashed.append([self._rows[entry.table], *words])
                positions.append(position)
        return _EncodedKeys(*_concatenate(hashed), positions, ranged)

    def _look_up(self, encoded_keys: _EncodedKeys) -> Offsets:
        """Return word offsets of records, or -1; the lock must be held."""
        ops, starts, positions, ranged = encoded_keys
        found = np.zeros(len(positions), dtype=np.int64)
        if positions or not ranged:
            write.find_records(self._memory.words, self._tables, ops, starts, found)
        if not ranged:
            return found
        offsets = np.full(len(positions) + len(ranged), -1, dtype=np.int64)
        offsets[positions] = found
        for position, name, words in ranged:
            if number := self._chains[name].find(words):
                layout = self._layout.tables[name]
                offsets[position] = layout.records + (number - 1) * layout.stride
        return offsets

    @contextmanager
    def _locked_record(self, entry: EntryKey) -> Iterator[int]:
        """Yield the word offset of an entry's record with the lock held; raise `EntryMissing`."""
        encoded_keys = self._encode_keys([entry])
        with self._memory.locked():
            record = int(self._look_up(encoded_keys)[0])
            if record < 0:
                raise EntryMissing(f"table {entry.table} has no entry {entry.key}")
            yield record

    # -- direct counters and meters, last hits

    def counter(self, entry: EntryKey) -> CounterValue:
        with self._locked_record(entry) as record:
            cell = record + self._layout.tables[entry.table].counter
            return CounterValue(*self._memory.read(cell, cell + COUNTER_WORDS, COUNTER_WORDS).tolist())

    def set_counter(self, entry: EntryKey, value: CounterValue) -> None:
        check_counter(value)
        with self._locked_record(entry) as record:
            cell = record + self._layout.tables[entry.table].counter
            self._memory.store(cell, value)

    def set_meter(self, entry: EntryKey, config: MeterConfig | None) -> None:
        words = meter_words(config)
        with self._locked_record(entry) as record:
            offset = record + self._layout.tables[entry.table].meter
            self._memory.store(offset, words)

    def last_hits(self, entries: Sequence[EntryKey]) -> list[int]:
        encoded_keys = self._encode_keys(entries)
        offsets = np.array([self._layout.tables[entry.table].last_hit for entry in entries], dtype=np.int64)
        with self._memory.locked():
            records = self._look_up(encoded_keys)
            hits = self._memory.words[np.maximum(records, 0) + offsets].astype(np.int64)
        hits[records < 0] = -1
        return [int(hit) for hit in hits]

    # -- reading entries back

    def count(self, table: str) -> int:
        return int(self._memory.words[self._layout.tables[table].header + ENTRIES])

    def find(self, entries: Sequence[EntryKey]) -> list[StoredEntry | None]:
        encoded_keys = self._encode_keys(entries)
        layouts = [self._layout.tables[entry.table] for entry in entries]
        with self._memory.locked():
            copies = [
                self._copy_record(layout, int(record))
                for layout, record in zip(layouts, self._look_up(encoded_keys), strict=True)
            ]
        return [
            copy and self._decode_entry(layout, *copy) for layout, copy in zip(layouts, copies, strict=True)
        ]

    def _copy_record(
        self, layout: TableLayout, record: int
    ) -> tuple[list[int], list[int], MemberOrGroup | None] | None:
        """Return a record's words, mask words, and member or group of the profile; the lock must be held."""
        if record < 0:
            return None
        words: list[int] = self._memory.read(record, record + layout.stride, layout.stride).tolist()
        member_or_group = self._get_uses(layout).get(words[layout.action])
        if not layout.is_ranked:
            return words, [], member_or_group
        group_number = words[layout.field_words]
        group = layout.groups + group_number * layout.group_stride
        return words, self._memory.words[group : group + layout.field_words].tolist(), member_or_group

    def _get_uses(self, layout: TableLayout) -> dict[int, MemberOrGroup]:
        return {} if layout.table.profile is None else self._profiles[layout.table.profile].uses

    def read(self, table: str) -> Iterator[StoredEntry]:
        layout = self._layout.tables[table]
        with self._memory.locked():
            record_count = int(self._memory.words[layout.header + USED])
            end = layout.records + record_count * layout.stride
            records = self._memory.read(layout.records, end, layout.stride).reshape(
                record_count, layout.stride
            )
            masks = self._group_masks(layout)
            uses = self._get_uses(layout).copy()
        live_records = (
            records[records[:, layout.action] != np.uint64(FREE_RECORD)] if record_count else records
        )
        entries = (record.tolist() for record in live_records)
        action_word, group_word = layout.action, layout.field_words
        return (
            self._decode_entry(
                layout,
                entry,
                masks[entry[group_word]].tolist() if layout.is_ranked else [],
                uses.get(entry[action_word]),
            )
            for entry in entries
        )

    def _group_masks(self, layout: TableLayout) -> npt.NDArray[np.uint64]:  # the lock must be held
        if not layout.is_ranked:
            return np.zeros((0, 0), dtype=np.uint64)
        groups = self._memory.words[layout.groups : layout.groups + layout.table.size * layout.group_stride]
        # A new group gets the lowest free number, which is below the number of records ever used.
        group_count = int(self._memory.words[layout.header + USED])
        return groups.reshape(-1, layout.group_stride)[:group_count, : layout.field_words].copy()

    def _decode_entry(
        self, layout: TableLayout, record: list[int], mask: list[int], member_or_group: MemberOrGroup | None
    ) -> StoredEntry:
        table = layout.table
        return StoredEntry(
            key=read_key(layout, record, mask),
            action=member_or_group or self._decode_action(layout, record),
            # A rank is the priority plus 1 (`Table.rank`).
            priority=record[layout.rank] - 1 if table.has_priority else 0,
            counter=CounterValue(*record[layout.counter : layout.counter + COUNTER_WORDS])
            if table.has_counter
            else CounterValue(0, 0),
            last_hit=record[layout.last_hit] if table.has_idle_timeout else 0,
        )

    def _decode_action(self, layout: TableLayout, record: list[int]) -> ActionCall:
        invocation = read_data(self._program, [record[layout.action], *record[layout.parameters :]])
        return ActionCall(self._program.actions[invocation.action].name, invocation.args)


def _concatenate(ops: list[list[int]]) -> tuple[Words, Offsets]:
    """Concatenate operations; return the words and the position where each begins, followed by the end."""
    # Most calls are for one operation, for which NumPy's functions take longer than these.
    starts = np.array([0, *accumulate(map(len, ops))], dtype=np.int64)
    return np.array([*chain.from_iterable(ops)], dtype=np.uint64), starts
