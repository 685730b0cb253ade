"""Tables in memory against a dict, and every structure that the packet function follows, word by word.

The hash and the probe are written out here once more, from the description in `softswitch.memory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch import ir
from softswitch.errors import EntryExists, EntryMissing, TableFull
from softswitch.ir import Masked, MatchKind, RangeMatch
from softswitch.memory.coding import match_words
from softswitch.memory.layout import TableLayout
from softswitch.pipeline import ActionCall, Change, CounterValue, EntryKey, EntryWrite, StoredEntry
from switch_harness.match_kinds import between, masked
from switch_harness.state_programs import NARROW, PLAIN, WIDE, State, key_field, program, table

SIZE = 6
GOLDEN_RATIO = 0x9E3779B97F4A7C15
LOW = 0xFFFFFFFF
FREE_RECORD = 2**64 - 1
Key = tuple[ir.Match, ...]
Entry = tuple[Key, int]

EXACT = table("exact", [key_field(8), key_field(100)], SIZE)
MASKED = table("masked", [key_field(8, MatchKind.TERNARY), key_field(70)], SIZE, has_counter=True)
PREFIXES = table("prefixes", [key_field(8, MatchKind.LPM)], SIZE, has_idle_timeout=True)
RANGES = table("ranges", [key_field(8), key_field(70, MatchKind.RANGE), key_field(8, MatchKind.RANGE)], SIZE)
TABLES = (EXACT, MASKED, PREFIXES, RANGES)
PROGRAM = program(*TABLES)

few = st.integers(0, 2)


KEYS: dict[str, st.SearchStrategy[Entry]] = {
    "exact": st.tuples(st.tuples(few, st.sampled_from([0, 1, 1 << 64, 1 << 99])), st.just(0)),
    "masked": st.tuples(
        st.tuples(st.builds(masked, few, st.sampled_from([0, 1, 3, 255])), st.sampled_from([0, 1 << 69])),
        st.integers(1, 3),
    ),
    "prefixes": st.tuples(
        st.tuples(st.builds(masked, st.sampled_from([0, 128, 192]), st.sampled_from([0, 128, 192, 255]))),
        st.just(0),
    ),
    "ranges": st.tuples(
        st.tuples(
            few,
            st.builds(between, st.sampled_from([0, 1 << 65, 5]), st.sampled_from([9, 1 << 66])),
            st.builds(between, few, few),
        ),
        st.integers(1, 3),
    ),
}
actions = st.sampled_from(
    [
        ActionCall(NARROW, (7,)),
        ActionCall(NARROW, (65535,)),
        ActionCall(WIDE, (3, 2**129 + 1)),
        ActionCall(PLAIN),
    ]
)


def writes(name: str) -> st.SearchStrategy[list[tuple[Change, Entry, ActionCall]]]:
    change = st.sampled_from([Change.INSERT, Change.INSERT, Change.MODIFY, Change.DELETE])
    return st.lists(st.tuples(change, KEYS[name], actions), max_size=30)


def expected(model: dict[Entry, ActionCall], change: Change, entry: Entry, action: ActionCall) -> type | None:
    """What a dict of the table's size would do."""
    if change is Change.INSERT:
        if entry in model:
            return EntryExists
        if len(model) == SIZE:
            return TableFull
        model[entry] = action
    elif entry not in model:
        return EntryMissing
    elif change is Change.DELETE:
        del model[entry]
    else:
        model[entry] = action
    return None


@pytest.mark.parametrize("name", KEYS)
@given(data=st.data())
def test_a_table_behaves_like_a_dict_and_its_structures_are_consistent(
    name: str, data: st.DataObject
) -> None:
    state, model = State(PROGRAM), dict[Entry, ActionCall]()
    for change, (key, priority), action in data.draw(writes(name)):
        wanted = expected(model, change, (key, priority), action)
        given_action = None if change is Change.DELETE else action
        [error] = state.entries.write([EntryWrite(change, name, key, given_action, priority)])
        assert (type(error) if error else None) == wanted
        check(state, name, model)


def check(state: State, name: str, model: dict[Entry, ActionCall]) -> None:
    layout = state.layout.tables[name]
    stored = {(entry.key, entry.priority): entry.action for entry in state.entries.read(name)}
    assert stored == model
    assert state.entries.count(name) == len(model)
    numbers = check_records(state, layout, len(model))
    assert sorted(number for chain in chains(state, layout) for number in chain) == numbers
    for key, priority in model:
        check_found(state, layout, match_words(layout, key, priority))
    if layout.is_ranked:
        check_groups(state, layout, [match_words(layout, *entry) for entry in model])


def record_at(layout: TableLayout, number: int) -> int:
    return layout.records + (number - 1) * layout.stride


def check_records(state: State, layout: TableLayout, count: int) -> list[int]:
    """Check header and free list; return the numbers of the records in use."""
    entries, free, used, _ = state.words(layout.header, 4)
    assert entries == count <= used <= SIZE
    freed = []
    while free:
        freed.append(free)
        assert state.word(record_at(layout, free) + layout.action) == FREE_RECORD
        free = state.word(record_at(layout, free))
    assert len(set(freed)) == len(freed) == used - count
    return sorted(set(range(1, used + 1)) - set(freed))


def hashed(words: Sequence[int]) -> int:
    value = 0
    for word in reversed(words):
        value = (value ^ word) * GOLDEN_RATIO % 2**64
        value ^= value >> 32
    return value


def chains(state: State, layout: TableLayout) -> Iterator[list[int]]:
    """Return the records of each bucket, whose tags match; in a ranked table by falling rank."""
    for bucket in state.words(layout.buckets, layout.bucket_count):
        if bucket:
            chain = [bucket & LOW]
            key = state.words(record_at(layout, chain[0]), layout.key_words)
            assert bucket >> 32 == hashed(key) >> 32
            while layout.is_ranked and (following := state.word(record_at(layout, chain[-1]) + layout.link)):
                chain.append(following)
                assert state.words(record_at(layout, following), layout.key_words) == key
            ranks = [state.word(record_at(layout, n) + layout.rank) for n in chain]
            assert not layout.is_ranked or ranks == sorted(ranks, reverse=True)
            yield chain


def check_found(state: State, layout: TableLayout, words: list[int]) -> None:
    """Check that no bucket from the hash's one up to the key's is empty."""
    key = words[: layout.field_words]
    if layout.is_ranked:
        mask = words[layout.field_words : 2 * layout.field_words]
        groups = (layout.groups + n * layout.group_stride for n in order(state, layout))
        number = next(
            (group - layout.groups) // layout.group_stride
            for group in groups
            if state.words(group, layout.field_words) == mask
        )
        key = [*key, number]
    position = hashed(key) & layout.mask
    while state.words(record_at(layout, bucket(state, layout, position) & LOW), layout.key_words) != key:
        assert bucket(state, layout, position)
        position = (position + 1) & layout.mask


def bucket(state: State, layout: TableLayout, position: int) -> int:
    return state.word(layout.buckets + position)


def order(state: State, layout: TableLayout) -> list[int]:
    return state.words(layout.order, state.word(layout.header + 3))


def check_groups(state: State, layout: TableLayout, entries: list[list[int]]) -> None:
    """Check the groups in use, highest rank first: mask, bound of the ranks, and number of entries."""
    words = layout.field_words
    ranks: dict[tuple[int, ...], list[int]] = {}
    for entry in entries:
        ranks.setdefault(tuple(entry[words : 2 * words]), []).append(entry[2 * words])
    bounds = []
    found = {}
    for number in order(state, layout):
        group = layout.groups + number * layout.group_stride
        mask, (bound, count) = tuple(state.words(group, words)), state.words(group + words, 2)
        assert count == len(ranks[mask])
        assert bound >= max(ranks[mask])
        bounds.append(bound)
        found[mask] = bound
    assert found.keys() == ranks.keys()
    assert len(bounds) == len(ranks)
    assert bounds == sorted(bounds, reverse=True)


# -- single facts


def insert(name: str, key: Key, action: ActionCall, priority: int = 0) -> EntryWrite:
    return EntryWrite(Change.INSERT, name, key, action, priority)


def test_a_batch_is_applied_in_order_with_a_result_for_each_write() -> None:
    state = State(PROGRAM)
    one, other = ActionCall(NARROW, (1,)), ActionCall(NARROW, (2,))
    batch = [
        insert("exact", (1, 1), one),
        insert("exact", (1, 1), other),
        EntryWrite(Change.MODIFY, "exact", (1, 1), other),
        EntryWrite(Change.DELETE, "exact", (2, 2)),
        EntryWrite(Change.MODIFY, "exact", (2, 2), one),
        *(insert("exact", (0, n), one) for n in range(SIZE)),
        EntryWrite(Change.DELETE, "exact", (1, 1)),
    ]
    results = state.entries.write(batch)
    kinds = [type(result) if result else None for result in results]
    done = [None] * (SIZE - 1)
    assert kinds == [None, EntryExists, None, EntryMissing, EntryMissing, *done, TableFull, None]
    assert [str(result) for result in results if result] == [
        "table exact has an entry (1, 1) already",
        "table exact has no entry (2, 2)",
        "table exact has no entry (2, 2)",
        f"table exact is full: it holds its {SIZE} entries",
    ]
    # The data plane, which lets go first what waits, is let in again.
    assert state.memory.waiting[0] == 0
    assert state.entries.write([]) == []
    assert state.entries.write([EntryWrite(Change.DELETE, "exact", (0, 0))]) == [None]


def test_the_group_of_the_highest_rank_comes_first() -> None:
    state = State(PROGRAM)
    layout = state.layout.tables["masked"]
    for mask, priority in ((1, 5), (3, 9), (7, 7), (15, 9)):
        [error] = state.entries.write([insert("masked", (Masked(1, mask), 0), ActionCall(PLAIN), priority)])
        assert error is None
    assert order(state, layout) == [1, 3, 2, 0]
    state.entries.write([EntryWrite(Change.DELETE, "masked", (Masked(1, 3), 0), None, 9)])
    assert order(state, layout) == [3, 2, 0]
    state.entries.write([insert("masked", (Masked(1, 31), 0), ActionCall(PLAIN), 8)])
    assert order(state, layout) == [3, 1, 2, 0]
    state.entries.write([insert("masked", (Masked(0, 1), 0), ActionCall(PLAIN), 10)])
    assert order(state, layout) == [0, 3, 1, 2]


def test_of_equal_ranks_the_oldest_comes_first() -> None:
    state = State(PROGRAM)
    layout = state.layout.tables["ranges"]
    for low in (4, 2, 3):
        key = (1, RangeMatch(low, 9), RangeMatch(0, 1))
        state.entries.write([insert("ranges", key, ActionCall(PLAIN), 5)])
    state.entries.write([insert("ranges", (1, RangeMatch(1, 9), RangeMatch(0, 1)), ActionCall(PLAIN), 6)])
    assert list(chains(state, layout)) == [[4, 1, 2, 3]]


def test_counts_of_packets_stay_with_a_modified_entry_and_go_with_a_deleted_entry() -> None:
    state = State(PROGRAM)
    key = EntryKey("masked", (Masked(1, 1), 7), 3)
    write = EntryWrite(Change.MODIFY, "masked", key.key, ActionCall(WIDE, (1, 2)), 3)
    state.entries.write([insert("masked", key.key, ActionCall(WIDE, (5, 6)), 3)])
    layout = state.layout.tables["masked"]
    state.memory.words[layout.records + layout.counter : layout.records + layout.counter + 2] = (4, 400)
    state.entries.write([write])
    [entry] = state.entries.find([key])
    assert entry == StoredEntry(key.key, ActionCall(WIDE, (1, 2)), 3, CounterValue(4, 400))
    state.entries.write([EntryWrite(Change.DELETE, "masked", key.key, None, 3)])
    state.entries.write([insert("masked", key.key, ActionCall(PLAIN), 3)])
    assert state.entries.find([key]) == [StoredEntry(key.key, ActionCall(PLAIN), 3)]
