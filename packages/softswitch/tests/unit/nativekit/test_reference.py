"""A tuple by reference equals the tuple by value, compiled and as plain Python."""

from __future__ import annotations

import gc
import weakref
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numba.core.errors import TypingError

from nativekit.compile import compiled, inlined, int64
from nativekit.machine_references import typeof
from nativekit.plain import plain
from nativekit.records import record, records
from nativekit.reference import as_ref, pinned_ref, write_words
from switch_harness.native import uncached
from switch_harness.wording import mentions

_write: Any = uncached(write_words)


class Shelf(NamedTuple):
    me: Any
    rows: Any


class Room(NamedTuple):
    shelf: Shelf
    grid: Any
    pair: Any
    scale: float


def make_room() -> Room:
    shelf = Shelf(records(1, record("calls"))[0], records(3, record("total", ("cells", "i4", (2,)))))
    return Room(shelf, np.arange(12, dtype=np.uint16).reshape(3, 4), (np.ones(2), np.zeros(2)), 0.5)


@inlined
def _shelf_of(room: Room) -> Shelf:
    shelf: Shelf = as_ref(Shelf(room.shelf.me, room.shelf.rows[1:]))
    return shelf


@compiled
def _put(shelf: Shelf, at: int, amount: float) -> int:
    shelf.rows[at].total += int64(amount)
    shelf.rows[at].cells[1] = at
    shelf.me.calls += 1
    return len(shelf.rows)


@uncached
def _work(room: Room, at: int) -> float:
    room = as_ref(as_ref(room))
    shelf = _shelf_of(room)
    n = _put(room.shelf, at, 10 * room.scale) + _put(shelf, 0, 2.0)
    room.pair[1][at & 1] += room.grid[at, 1:].sum() + room.grid.shape[1]
    return float(n + room.pair[0][0] + room.pair[1][at & 1])


def contents(room: Room) -> Any:
    return [room.shelf.me.calls, room.shelf.rows.tobytes(), [each.tolist() for each in room.pair]]


def lend_room(room: Room) -> Room:
    return pinned_ref(room, _write)


@pytest.mark.parametrize("lend", [lambda room: room, lend_room], ids=["for a call", "for many"])
def test_a_reference_reads_and_writes_the_referenced_arrays(lend: Any) -> None:
    room, twin = make_room(), make_room()
    given = lend(room)
    for at in (0, 2, 1, 2):
        assert _work(given, at) == plain(_work)(twin, at)
    assert contents(room) == contents(twin)
    assert room.shelf.me.calls == 8 and room.shelf.rows.total.tolist() == [5, 13, 10]


def test_referenced_arrays_live_as_long_as_their_reference() -> None:
    room = make_room()
    given = lend_room(room)
    for _ in range(100):
        _work(given, 1)
        _work(room, 1)
    grid = weakref.ref(room.grid)
    del room
    gc.collect()
    assert grid() is not None
    assert _work(given, 1) == 5 + 1 + 201 * (5 + 6 + 7 + 4)
    del given
    gc.collect()
    assert grid() is None


def test_a_reference_has_the_type_of_its_tuple() -> None:
    """Also if classes have equal names, or types of elements are made where others were that are freed."""
    for k in range(60):
        kind = np.dtype([("first", "i8"), (f"of_{k % 7}", "i4" if k % 2 else "f8")])
        fields = [("rows", Any)] if k % 3 else [("rows", Any), ("scale", float)]
        make: Any = NamedTuple
        made = make("made", fields)
        state = made(np.zeros(2, kind), *[0.5] * (len(fields) - 1))
        found = pinned_ref(state, lambda state, place: 8)
        assert cast(Any, found)._numba_type_.pointee == typeof(state)
        del kind, fields, made, state, found
        if k % 10 == 0:
            gc.collect()


def test_a_missing_field_of_a_reference_is_an_error() -> None:
    @uncached
    def read(room: Any) -> Any:
        return as_ref(room).door

    with pytest.raises(TypingError, match=mentions("door", "attribute")):
        read(make_room())
