"""A batch of accepted updates of one Write, which are applied to the pipeline together, and totals in it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from softswitch.p4runtime.codecs.uses import Uses
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
    server's state changes immediately. Whatever a step raises, `apply` undoes the batch as a whole, in the
    pipeline by a transaction and in the server by `roll_back`.
    """

    def __init__(
        self, pipeline: ControlPlane, uses: Uses, on_written: OnWritten = lambda _, __: None
    ) -> None:
        self._pipeline = pipeline
        self._uses = uses
        self._on_written = on_written
        self._snapshot_ids: set[int] = set()
        self._steps: list[tuple[int, EntryWrite | Step]] = []  # each with its update's position
        self._callbacks: list[Callable[[], None]] = []
        self._undo_steps: list[Callable[[], None]] = []
        self._changed_entries: dict[EntryKey, StoredEntry | None] = {}
        self._entry_count_changes: dict[str, int] = {}
        self.position = 0
        """Position in the request of the update that is being added, or applied."""

    # -- table entries

    def find(self, key: EntryKey) -> StoredEntry | None:
        if key in self._changed_entries:
            return self._changed_entries[key]
        return self._pipeline.tables.find([key])[0]

    def entry_count(self, table: str) -> int:
        return self._pipeline.tables.count(table) + self._entry_count_changes.get(table, 0)

    def write_entry(self, write: EntryWrite) -> None:
        key = EntryKey(write.table, write.key, write.priority)
        self._steps.append((self.position, write))
        # A DELETE has no action.
        self._changed_entries[key] = write.action and StoredEntry(write.key, write.action, write.priority)
        if write.change is not Change.MODIFY:
            count_change = 1 if write.change is Change.INSERT else -1
            self._entry_count_changes[write.table] = (
                self._entry_count_changes.get(write.table, 0) + count_change
            )

    # -- other updates

    def add(self, step: Step) -> None:
        self._steps.append((self.position, step))

    def call_after_apply(self, action: Callable[[], None]) -> None:
        """Call a function, which must not fail, after all steps."""
        self._callbacks.append(action)

    def put(self, store: dict[K, V], key: K, value: V | None) -> None:  # None removes the key
        old_value = store.get(key)
        self.on_undo(lambda: _set_or_delete(store, key, old_value))
        _set_or_delete(store, key, value)

    def hold_strings(self, holder: Hashable) -> None:
        """Record that an entity has the strings of the update, and no others (`codecs.uses`)."""
        self._uses.hold(holder, self.on_undo)

    def release_strings(self, holder: Hashable) -> None:
        self._uses.release(holder, self.on_undo)

    def snapshot(self, state: Restorable) -> None:
        if id(state) not in self._snapshot_ids:
            self._snapshot_ids.add(id(state))
            self.on_undo(state.snapshot())

    def on_undo(self, step: Callable[[], None]) -> None:
        self._undo_steps.append(step)

    def roll_back(self) -> None:
        """Undo the changes of the server's state; the last change is undone first."""
        while self._undo_steps:
            self._undo_steps.pop()()

    def apply(self, is_atomic: bool = False) -> None:
        """Apply the steps in order, or undo the batch and raise; if `is_atomic`, packets see all at once.

        Consecutive table entries go to the pipeline in one call. `position` is then that of the first, or of
        the one that the pipeline refused.
        """
        written: list[tuple[list[EntryWrite], list[Exception | None]]] = []
        try:
            if self._steps:
                with self._pipeline.transaction(is_atomic):
                    written = self._run_steps()
        except BaseException:
            self.roll_back()
            raise
        for writes, failures in written:
            self._on_written(writes, failures)
        for action in self._callbacks:
            action()

    def _run_steps(self) -> list[tuple[list[EntryWrite], list[Exception | None]]]:
        written: list[tuple[list[EntryWrite], list[Exception | None]]] = []
        entries: list[tuple[int, EntryWrite]] = []
        for position, step in self._steps:
            if isinstance(step, EntryWrite):
                entries.append((position, step))
                continue
            if entries:
                written.append(self._write_entries(entries))
                entries = []
            self.position = position
            step(self._pipeline)
        if entries:
            written.append(self._write_entries(entries))
        return written

    def _write_entries(
        self, entries: list[tuple[int, EntryWrite]]
    ) -> tuple[list[EntryWrite], list[Exception | None]]:
        self.position, _ = entries[0]
        writes = [write for _, write in entries]
        failures = self._pipeline.tables.write(writes)
        for (position, _), failure in zip(entries, failures, strict=True):
            if failure is not None:  # the write was checked before: server and pipeline disagree
                self.position = position
                raise failure
        return writes, failures


class Sizes(Generic[K]):
    """The size of each group or session, by its key, and their total, which batches update and restore."""

    def __init__(self) -> None:
        self._sizes: dict[K, int] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def total_without(self, key: K | None) -> int:
        return self.total if key is None else self.total - self._sizes.get(key, 0)

    def put(self, key: K, size: int | None, batch: Batch) -> None:
        """Change the size of a group; None removes it."""
        old_size = self._sizes.get(key)
        self._put(key, size)
        batch.on_undo(lambda: self._put(key, old_size))

    def _put(self, key: K, size: int | None) -> None:
        self.total += (size or 0) - self._sizes.pop(key, 0)
        if size is not None:
            self._sizes[key] = size


def _set_or_delete(store: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        store.pop(key, None)
    else:
        store[key] = value
