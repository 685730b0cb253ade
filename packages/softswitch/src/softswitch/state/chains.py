"""Index the chains of a table with ranges, so that a write need not walk them.

Ranges are no part of the key that is hashed. So all entries of such a table may be in one chain, in order of
descending rank (`state.ranked`). This index has the order of each chain and the record of each entry, which
compiled code gets as hints.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from softswitch.memory.layout import FREE_RECORD, USED, TableLayout
from softswitch.state.memory import Memory
from softswitch.state.write import DELETE, DONE, EXISTS, INSERT, MISSING, NO_HINT, OP_HEADER_WORDS

MatchWords = tuple[int, ...]
"""Masked key, mask, rank and bounds of an entry, as in an operation (`state.ranked`)."""
_LAST = 1 << 62  # above all arrivals


@dataclass
class _Place:
    number: int  # of the record; -1 - i for that of operation i, which is not executed yet
    arrival: int


class Chains:
    """The index of one table."""

    def __init__(self, layout: TableLayout, memory: Memory) -> None:
        self._layout, self._memory = layout, memory
        self._places: dict[MatchWords, _Place] = {}
        self._chains: dict[
            MatchWords, list[tuple[int, int, _Place]]
        ] = {}  # -rank and arrival, by key and mask
        self._arrivals = 0
        self._is_stale = False

    def find(self, words: Sequence[int]) -> int:
        """Return the number of an entry's record, or 0."""
        self._refresh()
        place = self._places.get(tuple(words))
        return 0 if place is None else place.number

    def invalidate(self) -> None:
        """Read the index again from the memory before its next use."""
        self._is_stale = True

    def begin(self) -> None:
        """Prepare the index for `plan`; it is stale from now on until `end`, which only success calls."""
        self._refresh()
        self._memory.on_undo(self.invalidate)
        self._is_stale = True

    def end(self) -> None:
        self._is_stale = False

    def match_words(self, op: list[int]) -> list[int]:
        """Return the match words of an operation on the table."""
        first = OP_HEADER_WORDS
        return op[first : first + 2 * self._layout.field_words + 1 + self._layout.bound_words]

    def plan(self, change: int, words: Sequence[int], index: int) -> tuple[int, int, int]:
        """Change the index as an operation will; return the record, its predecessor, and the expected result.

        They are numbers of records; 0 is none.
        """
        key = tuple(words)
        place = self._places.get(key)
        if change == INSERT:
            if place is not None:
                return place.number, NO_HINT, EXISTS
            return 0, self._insert(key, -1 - index), DONE
        if place is None:
            return 0, NO_HINT, MISSING
        return place.number, self._remove(key, place) if change == DELETE else NO_HINT, DONE

    def confirm(self, words: Sequence[int], number: int) -> None:
        """Set the number of the record that an inserted entry got, unless it has been removed since."""
        place = self._places.get(tuple(words))
        if place is not None and place.number < 0:
            place.number = number

    def _insert(self, key: MatchWords, number: int) -> int:
        chain = self._chains.setdefault(self._chain_key(key), [])
        rank = key[2 * self._layout.field_words]
        position = bisect_right(chain, (-rank, _LAST))  # a prefix of an element
        self._arrivals += 1
        place = self._places[key] = _Place(number, self._arrivals)
        chain.insert(position, (-rank, self._arrivals, place))
        return chain[position - 1][2].number if position else 0

    def _remove(self, key: MatchWords, place: _Place) -> int:
        chain = self._chains[self._chain_key(key)]
        rank = key[2 * self._layout.field_words]
        position = bisect_left(chain, (-rank, place.arrival))  # a prefix of an element
        predecessor = chain[position - 1][2].number if position else 0
        del chain[position], self._places[key]
        if not chain:
            del self._chains[self._chain_key(key)]
        return predecessor

    def _chain_key(self, key: MatchWords) -> MatchWords:
        return key[: 2 * self._layout.field_words]

    def _refresh(self) -> None:
        if not self._is_stale:
            return
        self._is_stale = False
        self._places.clear()
        self._chains.clear()
        layout, words = self._layout, self._memory.words
        used = int(words[layout.header + USED])
        records = words[layout.records : layout.records + used * layout.stride].reshape(used, layout.stride)
        links = {
            number: int(record[layout.link])
            for number, record in enumerate(records, 1)
            if int(record[layout.action]) != FREE_RECORD
        }
        for first in links.keys() - links.values():
            number = first
            while number:
                self._insert(self._match_words(records[number - 1].tolist()), number)
                number = links[number]

    def _match_words(self, record: list[int]) -> MatchWords:
        layout = self._layout
        fields = layout.field_words
        mask = layout.groups + record[fields] * layout.group_stride
        masks: list[int] = self._memory.words[mask : mask + fields].tolist()
        bounds = record[layout.bounds : layout.bounds + layout.bound_words]
        return (*record[:fields], *masks, record[layout.rank], *bounds)
