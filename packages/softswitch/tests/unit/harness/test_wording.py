"""Facts of a message are found in any wording and order, and only as a whole."""

from __future__ import annotations

import pytest

from switch_harness.wording import mentions, says, says_in_one_line

MESSAGE = "--window 65: expected 1 to 5,000 of job 3, got 0.25 in a.b.c"


@pytest.mark.parametrize("fact", ["--window", 65, 1, "5,000", "job 3", 0.25, "a.b.c", "b.c", "expected"])
def test_a_whole_fact_is_found(fact: object) -> None:
    assert says(MESSAGE, fact)


@pytest.mark.parametrize("fact", [6, 5, 0, 25, "000", "wind", "expect", "job 4", 650])
def test_a_part_of_a_fact_is_not_found(fact: object) -> None:
    assert not says(MESSAGE, fact)


def test_order_and_lines_do_not_matter() -> None:
    assert says("3\nof\n2", 2, 3) and not says("3\nof\n2", 2, 3, 4)
    assert says_in_one_line("3 of 2\n", 2, 3) and not says_in_one_line("3\nof 2", 2, 3)
    with pytest.raises(ValueError, match=mentions("port", 7)):
        raise ValueError("7 is no port")
    with pytest.raises(AssertionError), pytest.raises(ValueError, match=mentions("port", 8)):
        raise ValueError("7 is no port")
