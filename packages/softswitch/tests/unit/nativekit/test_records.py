"""Bits, records, prefetch hints and the plain form of compiled functions."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import from_dtype
from numba.core.errors import NumbaExperimentalFeatureWarning

from nativekit.bits import popcount, swap16, swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.plain import plain
from nativekit.prefetch import prefetch, prefetch_lines
from nativekit.records import (
    CACHE_LINE_BYTES,
    Int32,
    Octets,
    Records,
    UInt16,
    Words,
    dtype_of,
    one_record,
    record,
    records,
    with_arrays,
    zeros,
)
from nativekit.reference import as_ref
from switch_harness.native import uncached
from switch_harness.wording import mentions

S = TypeVar("S")
WORD = st.integers(0, 2**64 - 1)


@uncached
def _swapped(word: Any, result: Any) -> None:
    result[0] = np.uint64(swap16(word))
    result[1] = np.uint64(swap32(word))
    result[2] = swap64(word)


@uncached
def _ones(word: int) -> int:
    return int64(popcount(word))


_plain_ones = plain(_ones)


class _State(NamedTuple):
    me: Any
    rows: Any


@compiled
def _add(state: _State, at: int, amount: int) -> int:
    state.rows[at].total += amount
    state.me.calls += 1
    return int64(state.rows[at].total)


@uncached
def _add_all(state: _State, amount: int) -> int:
    state = as_ref(state)
    last = int64(0)
    for at in range(len(state.rows)):
        last = _add(state, at, amount + at)
    return last


def _state() -> _State:
    return _State(records(1, record("calls"))[0], records(3, record(("total", np.uint32))))


@given(word=WORD)
@pytest.mark.parametrize("run", [_swapped, plain(_swapped)], ids=["compiled", "plain"])
def test_the_bytes_of_words_are_reversed(run: Any, word: int) -> None:
    result = np.zeros(3, np.uint64)
    run(np.uint64(word), result)
    for bits, found in zip((16, 32, 64), result.tolist(), strict=True):
        octets = (word % 2**bits).to_bytes(bits // 8, "little")
        assert found == int.from_bytes(octets, "big")


@given(word=st.integers(0, 2**63 - 1))
def test_one_bits_of_words_are_counted(word: int) -> None:
    assert _ones(word) == _plain_ones(word) == bin(word).count("1")


def test_plain_python_leaves_the_same_bytes_as_compiled_code() -> None:
    compiled_state, plain_state = _state(), _state()
    assert _add_all(compiled_state, 5) == plain(_add_all)(plain_state, 5) == 7
    assert compiled_state.rows.tolist() == plain_state.rows.tolist() == [(5,), (6,), (7,)]
    assert compiled_state.me.calls == plain_state.me.calls == 3


def test_plain_python_takes_substitutes_for_called_functions() -> None:
    seen = []

    def add(state: _State, at: int, amount: int) -> int:
        seen.append((at, amount))
        return 7

    assert plain(_add_all, {_add: add})(_state(), 5) == 7
    assert seen == [(0, 5), (1, 6), (2, 7)]


@pytest.mark.parametrize("name", ["flags", "size", "data", "item"])
def test_a_field_that_plain_python_could_not_read_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=mentions("attributes", name)):
        record("good", name)


class Inner:
    number: UInt16
    rate: float


class Base:
    first: int
    key: np.uint64


class Derived(Base):
    small: Int32
    lanes: Annotated[Words, 4]
    grid: Annotated[Octets, (2, 3)]
    inner: Annotated[Records[Inner], 2]
    given: Annotated[Records[Inner], np.dtype([("other", "i8")]), 2]


class OwnFirst(Base):
    OWN_FIELDS_FIRST = True

    own: int


class Refused:
    size: int


def test_the_annotations_of_a_class_are_a_record_s_fields() -> None:
    inner = [("number", "u2"), ("rate", "f8")]
    assert dtype_of(Derived) == np.dtype(
        [
            ("first", "i8"), ("key", "u8"), ("small", "i4"), ("lanes", "u4", (4,)), ("grid", "u1", (2, 3)),
            ("inner", inner, (2,)), ("given", [("other", "i8")], (2,)),
        ]
    )  # fmt: skip
    assert dtype_of(OwnFirst).names == ("own", "first", "key")
    made, table = one_record(Derived), records((2, 3), Inner)
    made.lanes[1], made.inner[1].rate = 7, 0.5
    assert (made.lanes.tolist(), made.inner["rate"].tolist()) == ([0, 7, 0, 0], [0.0, 0.5])
    assert len(table[1]) == 3 and table[1, 2].number == 0
    with pytest.raises(ValueError, match=mentions("size", "attributes")):
        dtype_of(Refused)


def test_fields_are_read_and_written_as_by_numpy_s_records() -> None:
    made, table = one_record(Derived), records((2, 3), Derived)
    numpys = np.zeros((2, 3), dtype_of(Derived)).view(np.recarray)
    each: Any
    for each in (made, table[1, 2], numpys[1, 2]):
        each.first, each.key, each.grid, each.lanes = -5, 1 << 63, 4, [1, 2, 3, 4]
        each.inner[1].rate = 0.5
        each.inner[0].number = 9
    for name in dtype_of(Derived).names or ():
        assert np.array_equal(getattr(made, name), getattr(numpys[1, 2], name)), name
        assert np.array_equal(getattr(table, name), getattr(numpys, name)), name
        assert type(getattr(made, name)) is type(getattr(numpys[1, 2], name)), name
    table.first, table[0].small = 3, 7
    assert table["first"].tolist() == [[3] * 3] * 2 and table.small.tolist() == [[7] * 3, [0] * 3]
    inner: Any = table.inner
    assert inner[1, 2, 1].rate == inner.rate[1, 2, 1] == inner["rate"][1, 2, 1] == 0.5


@pytest.mark.parametrize("unknown", ["absent", "names", "_rate"])
def test_an_unknown_field_is_an_error(unknown: str) -> None:
    anything: Any = records(2, Inner)
    for each in (anything, anything[0]):
        with pytest.raises(AttributeError, match=unknown):
            getattr(each, unknown)
    with pytest.raises((AttributeError, ValueError), match=unknown):
        setattr(anything[0], unknown, 1)


def test_records_are_copied_and_sent_with_their_fields() -> None:
    array: Any = records(2, Inner)
    array[1].rate = 0.5
    for other in (array.copy(), pickle.loads(pickle.dumps(array)), array[::-1][::-1], array.reshape(2)):
        assert other[1].rate == 0.5 and other.rate.tolist() == [0, 0.5]
    assert pickle.loads(pickle.dumps(array[1])).rate == 0.5


def test_numba_accepts_a_record_that_begins_with_the_fields_of_the_expected_record() -> None:
    any_context: Any = None  # it is not used
    base, derived, own_first = (from_dtype(dtype_of(kind)) for kind in (Base, Derived, OwnFirst))
    with pytest.warns(NumbaExperimentalFeatureWarning):
        assert derived.can_convert_to(any_context, base) is not None
    assert own_first.can_convert_to(any_context, base) is None


class _Array(Generic[S]):
    """An array's type as NDArray is from numpy 2.5 and Python 3.12 on: an alias with a parameter."""


class _Lanes:
    lanes: Annotated[_Array[np.int16], 4]


def test_the_type_of_an_array_may_have_one_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nativekit.records.NDArray", _Array)
    assert dtype_of(_Lanes) == np.dtype([("lanes", np.int16, 4)])


class _Pair(NamedTuple):
    one: Any
    other: Any


def test_a_state_is_copied_with_replaced_arrays() -> None:
    before = _Pair(np.zeros(1), np.ones(1))
    after = with_arrays(before, other=before.one)
    assert after.other is before.one and before.other.all()


@uncached
def _touch(address: int, octets: int) -> None:
    prefetch(address)
    prefetch_lines(address, octets)


@pytest.mark.parametrize("address", [0, -1, 1 << 62, -(1 << 63)])
def test_any_address_may_be_touched(address: int) -> None:
    _touch(address, 1000)
    plain(_touch)(address, 1000)


def test_touched_memory_stays_unchanged_and_every_line_is_touched() -> None:
    stored = np.arange(1000, dtype=np.uint8)
    _touch(stored.ctypes.data, len(stored))
    assert (stored == np.arange(1000, dtype=np.uint8)).all()
    seen: list[int] = []
    plain(prefetch_lines, {prefetch: seen.append})(5 * CACHE_LINE_BYTES, 2 * CACHE_LINE_BYTES + 1)
    assert seen == [5 * CACHE_LINE_BYTES, 6 * CACHE_LINE_BYTES, 7 * CACHE_LINE_BYTES]


@given(shape=st.lists(st.integers(1, 40), min_size=1, max_size=3), kind=st.sampled_from(["u1", "i8", "f4"]))
def test_arrays_begin_with_a_line_of_the_caches(shape: list[int], kind: str) -> None:
    made, rows = zeros(shape, kind), records(shape[0], record("total", ("cells", kind, (3,))))
    assert made.shape == tuple(shape) and made.dtype == kind and not made.any()
    assert len(rows) == shape[0] and not rows.total.any() and not rows.cells.any()
    for array in (made, rows):
        assert (
            array.ctypes.data % CACHE_LINE_BYTES == 0 and array.flags.c_contiguous and array.flags.writeable
        )
