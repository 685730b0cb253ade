"""A batch of accepted updates of one Write, which are applied to the pipeline together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import Change, ControlPlane, EntryKey, EntryWrite, StoredEntry

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Step = Callable[[ControlPlane], None]
OnWritten = Callable[[Sequence[EntryWrite], Sequence[Exception | None]], None]
"""Called with the writes that the pipeline has executed, and the failure or None of each."""
K = TypeVar("K")
V = TypeVar("V")


class Restorable(Protocol):
    def snapshot(self) -> Callable[[], None]:
        """Copy the state; return a function that restores it."""


class Batch:
    """Updates of one Write: each is checked against the state after the previous ones.

    Changes of table entries, whose state is the pipeline's, are recorded here until they are applied; the
    server's state changes immediately. So applying cannot fail, and an atomic batch with an error is rolled
    back before the pipeline has been changed.
    """

    def __init__(
        self, pipeline: ControlPlane, may_roll_back: bool = True, on_written: OnWritten = lambda _, __: None
    ) -> None:
        self._pipeline = pipeline
        self._on_written = on_written
        self._may_roll_back = may_roll_back
        self._snapshot_ids: set[int] = set()
        self._steps: list[EntryWrite | Step] = []
        self._callbacks: list[Callable[[], None]] = []
        self._undo_steps: list[Callable[[], None]] = []
        self._changed_entries: dict[EntryKey, StoredEntry | None] = {}
        self._entry_count_changes: dict[str, int] = {}

    # -- table entries

    def find(self, key: EntryKey) -> StoredEntry | None:
        if key in self._changed_entries:
            return self._changed_entries[key]
        return self._pipeline.find_entries([key])[0]

    def entry_count(self, table: str) -> int:
        return self._pipeline.entry_count(table) + self._entry_count_changes.get(table, 0)

    def write_entry(self, write: EntryWrite) -> None:
        key = EntryKey(write.table, write.key, write.priority)
        self._steps.append(write)
        # A DELETE has no action.
        self._changed_entries[key] = write.action and StoredEntry(write.key, write.action, write.priority)
        if write.change is not Change.MODIFY:
            count_change = 1 if write.change is Change.INSERT else -1
            self._entry_count_changes[write.table] = (
                self._entry_count_changes.get(write.table, 0) + count_change
            )

    # -- other updates

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def call_after_apply(self, action: Callable[[], None]) -> None:
        self._callbacks.append(action)

    def put(self, store: dict[K, V], key: K, value: V | None) -> None:  # None removes the key
        if self._may_roll_back:
            old_value = store.get(key)
            self._undo_steps.append(lambda: _set_or_delete(store, key, old_value))
        _set_or_delete(store, key, value)

    def snapshot(self, state: Restorable) -> None:
        if self._may_roll_back and id(state) not in self._snapshot_ids:
            self._snapshot_ids.add(id(state))
            self._undo_steps.append(state.snapshot())

    def roll_back(self) -> None:
        for undo in reversed(self._undo_steps):
            undo()

    @property
    def is_one_step(self) -> bool:
        """Whether packets see only the states before and after the batch."""
        return len(self._steps) <= 1 or all(isinstance(step, EntryWrite) for step in self._steps)

    def apply(self) -> None:
        """Apply the steps in order; consecutive table entries go to the pipeline as one batch."""
        entries: list[EntryWrite] = []
        for step in self._steps:
            if isinstance(step, EntryWrite):
                entries.append(step)
            else:
                self._write_entries(entries)
                entries = []
                step(self._pipeline)
        self._write_entries(entries)
        for action in self._callbacks:
            action()

    def _write_entries(self, entries: list[EntryWrite]) -> None:
        if not entries:
            return
        failures = self._pipeline.write_entries(entries)
        self._on_written(entries, failures)
        for failure in failures:
            if failure is not None:  # the write was checked before: server and pipeline disagree
                raise failure


def _set_or_delete(store: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        store.pop(key, None)
    else:
        store[key] = value
