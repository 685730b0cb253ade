"""BMv2's handles of table entries, for commands.

BMv2 gives an entry the lowest free number. With each reuse of a number its version grows, and a handle is
version << 24 | number (BMv2: match_units.cpp). Entries before the first query are numbered in the order of
the table; from then on all writes are tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from softswitch.p4runtime.entities.selection import NumberAllocator
from softswitch.p4runtime.entities.store import Key
from softswitch.pipeline import Change, EntryWrite, StoredEntry

_NUMBER_BITS = 24
_NUMBER_MASK = (1 << _NUMBER_BITS) - 1
_VERSION_COUNT = 1 << 8


class _NumberedEntries:
    def __init__(self) -> None:
        self.number_by_key: dict[Key, int] = {}
        self.key_by_number: dict[int, Key] = {}
        self._versions: dict[int, int] = {}
        self._allocator = NumberAllocator()

    def add(self, key: Key) -> None:
        number = self._allocator.allocate()
        self.number_by_key[key], self.key_by_number[number] = number, key

    def remove(self, key: Key) -> None:
        number = self.number_by_key.pop(key)
        del self.key_by_number[number]
        self._versions[number] = (self._versions.get(number, 0) + 1) % _VERSION_COUNT
        self._allocator.free(number)

    def handle_of(self, number: int) -> int:
        return self._versions.get(number, 0) << _NUMBER_BITS | number


class Handles:
    def __init__(self, read_entries: Callable[[str], Iterable[StoredEntry]]) -> None:
        self._read_entries = read_entries
        self._entries_by_table: dict[str, _NumberedEntries] = {}

    @property
    def tracked_tables(self) -> Collection[str]:
        """Tables that have been queried, whose writes must be passed to `track`."""
        return self._entries_by_table.keys()

    def track(self, writes: Sequence[EntryWrite], failures: Iterable[Exception | None]) -> None:
        if not self._entries_by_table:
            return
        for write, failure in zip(writes, failures, strict=True):
            entries = self._entries_by_table.get(write.table)
            if entries is None or failure is not None:
                continue
            if write.change is Change.INSERT:
                entries.add(Key(write.key, write.priority))
            elif write.change is Change.DELETE:
                entries.remove(Key(write.key, write.priority))

    def reset(self, table: str) -> None:
        self._entries_by_table[table] = _NumberedEntries()

    def find_handle(self, table: str, key: Key) -> int | None:
        entries = self._number_entries(table)
        number = entries.number_by_key.get(key)
        return None if number is None else entries.handle_of(number)

    def find_key(self, table: str, handle: int) -> Key | None:
        entries = self._number_entries(table)
        number = handle & _NUMBER_MASK
        return entries.key_by_number.get(number) if entries.handle_of(number) == handle else None

    def is_expired(self, table: str, handle: int) -> bool:
        entries = self._number_entries(table)
        number = handle & _NUMBER_MASK
        return number in entries.key_by_number and entries.handle_of(number) != handle

    def handles_and_keys(self, table: str) -> Iterator[tuple[int, Key]]:
        entries = self._number_entries(table)
        return (
            (entries.handle_of(number), entries.key_by_number[number])
            for number in sorted(entries.key_by_number)
        )

    def _number_entries(self, table: str) -> _NumberedEntries:
        if table not in self._entries_by_table:
            entries = self._entries_by_table[table] = _NumberedEntries()
            for entry in self._read_entries(table):
                entries.add(Key(entry.key, entry.priority))
        return self._entries_by_table[table]
