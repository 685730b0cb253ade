"""A generic function calls the implementation of its state's class, compiled and as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from nativekit.compile import compiled, int64
from nativekit.generic import generics, implement
from nativekit.plain import plain
from nativekit.records import record, records
from nativekit.reference import as_ref, row
from switch_harness.native import uncached
from switch_harness.wording import mentions


class Shape(NamedTuple):
    grow: Callable[[Any, int], int]


class Square(NamedTuple):
    me: Any


class Circle(NamedTuple):
    me: Any
    inner: Square
    fixed: Any


class Stranger(NamedTuple):
    me: Any


ANY = generics(Shape)
(grow,) = ANY


@compiled
def _grow_square(state: Square, by: int) -> int:
    state.me.width += by
    return int64(state.me.width) * int64(state.me.width)


@compiled
def _grow_circle(state: Circle, by: int) -> int:
    state.me.width += by
    return 3 * int64(state.me.width) * int64(state.fixed[0]) + grow(state.inner, by)


implement(Square, ANY, Shape(_grow_square))
implement(Circle, ANY, Shape(_grow_circle))


@uncached
def _twice(state: Any, by: int) -> int:
    state = as_ref(state)
    return grow(state, by) + grow(state, by)


@uncached
def _grow_row(stacked: Any, at: int, by: int) -> int:
    return grow(row(as_ref(stacked), at), by)


ME = record("width")


def square() -> Square:
    return Square(records(1, ME)[0])


def circle(axis: tuple[int, ...] = ()) -> Circle:
    fixed = np.full(2, 7, np.int64)
    fixed.setflags(write=False)
    if axis:
        return Circle(records(axis, ME), Square(records(axis, ME)), fixed)
    return Circle(records(1, ME)[0], square(), fixed)


@pytest.mark.parametrize("make", [square, circle])
def test_the_class_of_the_state_chooses_the_implementation(make: Callable[[], Any]) -> None:
    state, twin = make(), make()
    assert _twice(state, 2) == plain(_twice)(twin, 2)
    assert state.me.width == twin.me.width == 4


def test_a_row_is_a_state_of_the_same_class_and_shares_read_only_arrays() -> None:
    stacked, twin = circle((3,)), circle((3,))
    for at in (0, 2, 2):
        assert _grow_row(stacked, at, 5) == plain(_grow_row)(twin, at, 5)
    assert stacked.me.width.tolist() == stacked.inner.me.width.tolist() == [5, 0, 10]
    assert twin.me.width.tolist() == [5, 0, 10]


def test_a_class_without_an_implementation_is_an_error_that_names_the_function() -> None:
    with pytest.raises(TypingError, match=mentions("implementation", "grow")):
        _twice(Stranger(records(1, ME)[0]), 1)


def test_names_of_classes_must_differ() -> None:
    """Numba would confuse their tuples."""
    another = type("Square", (), {})
    with pytest.raises(ValueError, match=mentions("Square", "class")):
        implement(another, ANY, Shape(_grow_circle))
