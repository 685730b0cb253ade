"""An object is found by its name, or by an end of its name that no other one has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from softswitch.ir.names import find_by_end

NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(".".join)


@given(st.sets(NAMES, max_size=8), NAMES)
def test_an_object_is_found_by_its_name_or_by_a_unique_end(names: set[str], name: str) -> None:
    having_it = [each for each in names if each.split(".")[-len(name.split(".")) :] == name.split(".")]
    expected = name if name in names else having_it[0] if len(having_it) == 1 else None
    assert find_by_end(name, {each: each for each in names}) == expected
