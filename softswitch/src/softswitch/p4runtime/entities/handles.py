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


class _Numbers:
    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.keys: dict[int, Key] = {}
        self._versions: dict[int, int] = {}
        self._free = NumberAllocator()

    def add(self, key: Key) -> None:
        number = self._free.take()
        self.numbers[key], self.keys[number] = number, key

    def remove(self, key: Key) -> None:
        number = self.numbers.pop(key)
        del self.keys[number]
        self._versions[number] = (self._versions.get(number, 0) + 1) % _VERSION_COUNT
        self._free.give(number)

    def handle(self, number: int) -> int:
        return self._versions.get(number, 0) << _NUMBER_BITS | number


class Handles:
    def __init__(self, entries: Callable[[str], Iterable[StoredEntry]]) -> None:
        self._entries = entries
        self._tables: dict[str, _Numbers] = {}

    @property
    def tracked_tables(self) -> Collection[str]:
        """Tables that have been queried, whose writes must be passed to `track`."""
        return self._tables.keys()

    def track(self, writes: Sequence[EntryWrite], failures: Iterable[Exception | None]) -> None:
        if not self._tables:
            return
        for write, failure in zip(writes, failures, strict=True):
            numbers = self._tables.get(write.table)
            if numbers is None or failure is not None:
                continue
            if write.change is Change.INSERT:
                numbers.add(Key(write.key, write.priority))
            elif write.change is Change.DELETE:
                numbers.remove(Key(write.key, write.priority))

    def forget(self, table: str) -> None:
        self._tables[table] = _Numbers()

    def of(self, table: str, key: Key) -> int | None:
        numbers = self._numbers(table)
        number = numbers.numbers.get(key)
        return None if number is None else numbers.handle(number)

    def key(self, table: str, handle: int) -> Key | None:
        numbers = self._numbers(table)
        number = handle & _NUMBER_MASK
        return numbers.keys.get(number) if numbers.handle(number) == handle else None

    def is_expired(self, table: str, handle: int) -> bool:
        numbers = self._numbers(table)
        number = handle & _NUMBER_MASK
        return number in numbers.keys and numbers.handle(number) != handle

    def ordered(self, table: str) -> Iterator[tuple[int, Key]]:
        numbers = self._numbers(table)
        return ((numbers.handle(number), numbers.keys[number]) for number in sorted(numbers.keys))

    def _numbers(self, table: str) -> _Numbers:
        if table not in self._tables:
            numbers = self._tables[table] = _Numbers()
            for entry in self._entries(table):
                numbers.add(Key(entry.key, entry.priority))
        return self._tables[table]
