"""The accepted updates of one Write, on their way to the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import Change, ControlPlane, EntryKey, EntryWrite, StoredEntry

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

Step = Callable[[ControlPlane], None]
Follow = Callable[[Sequence[EntryWrite], Sequence[Exception | None]], None]
"""Who is told of writes that the pipeline has done, and which of them failed."""
K = TypeVar("K")
V = TypeVar("V")


class Keepable(Protocol):
    """State that is cheaper to copy whole than to undo step by step."""

    def keep(self) -> Callable[[], None]:
        """Copy the state, and return what makes it again what it is now."""
        ...


class Batch:
    """Updates are checked against the state that those before them leave, and applied together at the end.

    Table entries are in the pipeline, and what the batch does to them is noted here until it is applied; what
    the server itself keeps is changed at once. So what is applied cannot fail, and a batch that must be all
    or nothing is undone before the pipeline has heard of it.
    """

    def __init__(
        self, pipeline: ControlPlane, may_roll_back: bool = True, follow: Follow = lambda _, __: None
    ) -> None:
        self._pipeline = pipeline
        self._follow = follow
        self._may_roll_back = may_roll_back
        self._kept: set[int] = set()
        self._steps: list[EntryWrite | Step] = []
        self._afterwards: list[Callable[[], None]] = []
        self._undo: list[Callable[[], None]] = []
        self._entries: dict[EntryKey, StoredEntry | None] = {}
        self._grown: dict[str, int] = {}

    # -- table entries

    def find(self, key: EntryKey) -> StoredEntry | None:
        """The entry with a key, as the batch leaves it so far."""
        if key in self._entries:
            return self._entries[key]
        return self._pipeline.find_entries([key])[0]

    def entry_count(self, table: str) -> int:
        """How many entries a table has, as the batch leaves it so far."""
        return self._pipeline.entry_count(table) + self._grown.get(table, 0)

    def write_entry(self, write: EntryWrite) -> None:
        """Add a write of a table entry, which is known to succeed."""
        key = EntryKey(write.table, write.key, write.priority)
        self._steps.append(write)
        self._entries[key] = write.action and StoredEntry(write.key, write.action, write.priority)
        if write.change is not Change.MODIFY:
            growth = 1 if write.change is Change.INSERT else -1
            self._grown[write.table] = self._grown.get(write.table, 0) + growth

    # -- the rest

    def add(self, step: Step) -> None:
        """Add another operation on the pipeline."""
        self._steps.append(step)

    def afterwards(self, action: Callable[[], None]) -> None:
        """Have something done when the batch is applied, and only then."""
        self._afterwards.append(action)

    def put(self, store: dict[K, V], key: K, value: V | None) -> None:
        """Set a key of what the server keeps, or remove it where `value` is None."""
        if self._may_roll_back:
            before = store.get(key)
            self._undo.append(lambda: _put(store, key, before))
        _put(store, key, value)

    def keep(self, state: Keepable) -> None:
        """Announce a change of other state that the server keeps."""
        if self._may_roll_back and id(state) not in self._kept:
            self._kept.add(id(state))
            self._undo.append(state.keep())

    def roll_back(self) -> None:
        """Make what the server keeps what it was."""
        for undo in reversed(self._undo):
            undo()

    @property
    def is_one_step(self) -> bool:
        """Whether packets can see only the state before the batch and the state after it."""
        return len(self._steps) <= 1 or all(isinstance(step, EntryWrite) for step in self._steps)

    def apply(self) -> None:
        """Apply the steps in order; consecutive table entries go to the pipeline as one batch."""
        entries: list[EntryWrite] = []
        for step in self._steps:
            if isinstance(step, EntryWrite):
                entries.append(step)
            else:
                self._write(entries)
                entries = []
                step(self._pipeline)
        self._write(entries)
        for action in self._afterwards:
            action()

    def _write(self, entries: list[EntryWrite]) -> None:
        if not entries:
            return
        failures = self._pipeline.write_entries(entries)
        self._follow(entries, failures)
        for failure in failures:
            if failure is not None:  # it was checked: server and pipeline disagree
                raise failure


def _put(store: dict[Any, Any], key: Any, value: object) -> None:
    if value is None:
        store.pop(key, None)
    else:
        store[key] = value
