"""Conversion of plain writes of exact tables into operations on the pipeline's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from nativekit.records import records_from_rows
from softswitch.ir import Invocation, Table
from softswitch.memory.rows import Words
from softswitch.p4runtime.codecs.fields import Field
from softswitch.p4runtime.entities.store import Stores, TableStore
from softswitch.p4runtime.plain.encode import WORD_BITS, ActionRow, FieldRow, TableRow, encode
from softswitch.p4runtime.plain.request import ScannedUpdates
from softswitch.p4runtime.plain.scan import TABLE
from softswitch.pipeline import ActionCall
from softswitch.state.entries import Offsets
from softswitch.state.write import OP_HEADER_WORDS


@runtime_checkable
class OperationTarget(Protocol):
    """Tables (`softswitch.pipeline.TableOps`) that take encoded operations, too."""

    def row_of(self, table: str) -> int: ...

    def key_words(self, table: str) -> int: ...

    def invocation(self, table: str, call: ActionCall) -> Invocation: ...

    def apply_all_or_none(self, ops: Words, starts: Offsets) -> bool:
        """Apply operations as one batch, unless one is invalid or a key recurs; return whether applied."""


class PlainWriter:
    """Converter of writes to exact tables without state outside of the pipeline (`TableStore.is_plain`)."""

    def __init__(self, stores: Stores, program_tables: Iterable[Table], target: OperationTarget) -> None:
        self._target = target
        tables: list[tuple[int, ...]] = []  # rows of `TableRow`
        actions: list[tuple[int, ...]] = []  # rows of `ActionRow`
        fields: list[tuple[int, int, int]] = []  # rows of `FieldRow`
        self._stores: list[TableStore] = []
        self._max_words = OP_HEADER_WORDS  # of one operation
        for table in program_tables:
            store = stores.find_by_name(table.name)
            if store is None or not _is_plain(store, table):
                continue
            self._stores.append(store)
            key_rows = _make_key_rows(
                Field(field.id, field.width, field.name) for field in store.table.key.fields
            )
            first_field, end_field = _append_rows(fields, key_rows)
            first_action = len(actions)
            action_words = 0
            for action in store.table.entry_actions.values():
                params = [(param.id, param.width, 0) for param in action.params.fields]  # no shift
                call = ActionCall(action.name, (0,) * len(params))
                index = target.invocation(store.name, call).action
                actions.append((action.id, index, *_append_rows(fields, params)))
                action_words = max(action_words, 1 + len(params))  # its index and data
            key_words = target.key_words(store.name)
            row = target.row_of(store.name)
            fields_and_actions = first_field, end_field, first_action, len(actions)
            tables.append((store.table.id, row, key_words, *fields_and_actions))
            self._max_words = max(self._max_words, OP_HEADER_WORDS + key_words + action_words)
        self._names = {store.name for store in self._stores}
        self._tables = records_from_rows(TableRow, tables)
        self._actions = records_from_rows(ActionRow, actions)
        self._fields = records_from_rows(FieldRow, fields)

    def write(self, scanned: ScannedUpdates, tracked_tables: Collection[str]) -> bool:
        """Apply all updates if all are plain, their tables have no handles, and none of them fails."""
        if (
            not self._stores
            or self._changes_extras(scanned)
            or (tracked_tables and not self._names.isdisjoint(tracked_tables))
        ):
            return False
        count = len(scanned.updates)
        ops = np.empty(count * self._max_words, dtype=np.uint64)
        starts = np.empty(count + 1, dtype=np.int64)
        are_valid = encode(
            scanned.data,
            scanned.updates,
            scanned.values,
            self._tables,
            self._actions,
            self._fields,
            ops,
            starts,
        )
        return are_valid and self._target.apply_all_or_none(ops[: starts[-1]], starts)

    def _changes_extras(self, scanned: ScannedUpdates) -> bool:
        """Return whether updates may change state of entries besides match and action."""
        tables = {store.table.id for store in self._stores if store.extras}
        return bool(tables) and not tables.isdisjoint(scanned.updates[:, TABLE].tolist())


def _is_plain(store: TableStore, table: Table) -> bool:
    if not store.is_plain or not table.is_exact or any(part.mask is not None for part in table.key):
        return False
    if store.table.key.is_translated or any(
        action.params.is_translated for action in store.table.entry_actions.values()
    ):
        return False
    widths = [field.width for field in store.table.key.fields]
    widths += [width for action in store.table.entry_actions.values() for width in action.params.widths]
    return max(widths) <= WORD_BITS


def _make_key_rows(key: Iterable[Field]) -> list[tuple[int, int, int]]:
    """Return ID, width and shift of each field in the key, whose last field has the lowest bits."""
    rows: list[tuple[int, int, int]] = []
    shift = 0
    for field in reversed(list(key)):
        rows.append((field.id, field.width, shift))
        shift += field.width
    return rows[::-1]


def _append_rows(rows: list[tuple[int, int, int]], new_rows: list[tuple[int, int, int]]) -> tuple[int, int]:
    first = len(rows)
    rows += new_rows
    return first, len(rows)
