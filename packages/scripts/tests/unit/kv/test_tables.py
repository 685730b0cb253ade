"""The key space of tables, and the conversion of floats to fixed point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.protocol.header import DIMS, padded_dim
from hotline_scripts.embedding_tables import MAX_PARAMETERS, TableError, make_tables, parse_declaration
from hotline_scripts.kv.conversion import NOT_FINITE, from_fixed, to_fixed
from switch_harness.wording import mentions, says_in_one_line

SIZES = st.dictionaries(
    st.sampled_from("abcdef"), st.tuples(st.integers(1, 9), st.integers(1, 300)), min_size=1, max_size=4
)


@pytest.mark.parametrize("has_rows", [True, False])
@given(sizes=SIZES, optimiser=st.sampled_from([None, "adam(lr=0.123456789)", {"a": "sgd(lr=1)"}]))
def test_each_value_of_a_table_has_one_place_and_all_keys_are_used(
    has_rows: bool, sizes: dict[str, tuple[int, int]], optimiser: Any
) -> None:
    tables = make_tables({"a": (1, 1), **sizes}, 8.0, optimiser).in_design(has_rows)
    sizes = {name: (each.rows, each.dim) for name, each in tables.items()}
    space = tables.space
    found = [table.positions(np.arange(table.rows)) for table in tables.values()]
    assert np.concatenate(found).tolist() == list(range(space.size))
    places: list[int] = []
    for table, positions in zip(tables.values(), found, strict=True):
        assert set(space.dims_at(positions).tolist()) == {table.width} and table.width in DIMS
        words = np.arange(1, table.rows * table.dim + 1, dtype=np.uint32)
        padded = table.pad(words)
        assert table.strip(padded).tolist() == words.tolist()
        of_table = space.value_places(positions)
        assert len(of_table) == len(padded)
        places += of_table[padded > 0].tolist()
        # Fewer keys would have rows that are too wide, and less padding than to the next dim is not possible.
        assert table.keys_of_row == (-(-table.dim // DIMS[-1]) if has_rows else table.dim)
        assert table.width == (padded_dim(-(-table.dim // table.keys_of_row)) if has_rows else 1)
    assert len(set(places)) == len(places) == sum(rows * dim for rows, dim in sizes.values())
    assert {name: (each.rows, each.dim) for name, each in tables.items()} == sizes
    redeclared = parse_declaration(tables.to_declaration()).in_design(has_rows)
    assert redeclared.optimisers == tables.optimisers and (redeclared.optimisers == ()) == (optimiser is None)
    assert redeclared.describe_difference(tables) is None
    assert list(redeclared.values()) == list(tables.values())


WRONG: list[tuple[Any, Any, str]] = [
    ({}, 1.0, r"\{\}"),
    ({"a": (3,)}, 1.0, r"a: .*got \(3,\)"),
    ({"a": (3, 0)}, 1.0, r"a: .*got \(3, 0\)"),
    ({"a": (3, 1.5)}, 1.0, r"a: .*got \(3, 1.5\)"),
    ({"a": (3, True)}, 1.0, r"a: .*got \(3, True\)"),
    ({"": (3, 1)}, 1.0, r"''"),
    ({1: (3, 1), "a": (3, 1)}, 1.0, r"a printable text as a table's name, got 1"),
    ({"a\nb": (3, 1)}, 1.0, r"a printable text as a table's name, got 'a"),
    ({"\ud800": (3, 1)}, 1.0, r"a printable text as a table's name, got '"),
    ({"a": (3, 1)}, 0.0, r"a: .*scale above 0, got 0.0"),
    ({"a": (3, 1)}, float("nan"), r"a: .*scale above 0, got nan"),
    ({"a": (3, 1)}, {"b": 1.0}, r"scale of unknown table b.* a"),
    ({"a": (2**20, 1), "b": (2**20, 2**11)}, 1.0, rf"table b.*{MAX_PARAMETERS:,}"),
]


@pytest.mark.parametrize(("sizes", "scale", "reported"), WRONG)
def test_an_invalid_table_is_named(sizes: Any, scale: Any, reported: str) -> None:
    with pytest.raises(TableError, match=reported):
        make_tables(sizes, scale)


def test_an_invalid_optimiser_is_named_with_its_table() -> None:
    with pytest.raises(TableError, match=mentions("b", "lamb")):
        make_tables({"a": (1, 1), "b": (1, 1)}, optimiser={"b": "lamb"})
    with pytest.raises(TableError, match=mentions("optimiser", "unknown")):
        make_tables({"a": (1, 1)}, optimiser={"c": "adam"})
    first = make_tables({"a": (1, 1)}, optimiser="adam")
    assert says_in_one_line(
        first.describe_difference(make_tables({"a": (1, 1)})),
        "a",
        1,
        65536,
        "adam(lr=0.001",
        "beta1=0.9",
        "beta2=0.999",
        "eps=1e-08",
    )


@pytest.mark.parametrize(
    "declared",
    [None, {"a": 3}, {"a": [1, 2]}, {"a": [1, 2, "x"]}, {"a": [1, 0, 1.0]}, {"a": [1, 1, 1.0, 5]}],
)
def test_an_invalid_declaration_is_refused(declared: Any) -> None:
    with pytest.raises(TableError):
        parse_declaration(declared)


@given(
    values=st.lists(st.floats(-30_000, 30_000, width=32), min_size=1, max_size=20),
    scale=st.sampled_from([1.0, 1000.0, 2.0**16]),
)
def test_a_value_is_wrong_by_half_a_unit_at_most(values: list[float], scale: float) -> None:
    given_values = np.array([values], np.float32)
    out = np.empty_like(given_values)
    units, saturated = to_fixed(given_values, scale)
    from_fixed(units, scale, out)
    back = out.astype(np.float64)
    assert saturated == 0
    assert (np.abs(back - given_values) <= 0.5 / scale + np.abs(back) * 2.0**-24).all()


def test_units_are_two_s_complement_rounded_to_the_nearest_and_saturate() -> None:
    values = np.array([[-1, 0.75, 1.5, 2.5, 2.0**31, -(2.0**31), -(2.0**32)]], np.float32)
    units, saturated = to_fixed(values, 1.0)
    assert units.tolist() == [2**32 - 1, 1, 2, 2, 2**31 - 1, 2**31, 2**31] and saturated == 2
    assert to_fixed(np.array([[2.0**31, np.nan, 1]], np.float32), 1.0)[1] == NOT_FINITE
    assert to_fixed(np.array([[-np.inf]], np.float32), 1.0)[1] == NOT_FINITE
    assert to_fixed(np.array([[3e38]], np.float32), 1e300)[1] == 1
