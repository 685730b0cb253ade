"""Plurals and single lines in messages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import foundation.text
import softswitch.messages


@pytest.mark.parametrize("pluralize", [foundation.text.pluralize, softswitch.messages.pluralize])
def test_numbers_are_followed_by_singular_or_plural(pluralize: Callable[..., str]) -> None:
    assert [pluralize(number, "round") for number in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]
    assert [pluralize(number, "miss", "misses") for number in (1, 2)] == ["1 miss", "2 misses"]


def test_foreign_text_stays_one_line() -> None:
    assert foundation.text.one_line("a\nb\x7f\u2028é") == r"a\nb\x7f\u2028é"


def test_large_numbers_can_be_read() -> None:
    assert foundation.text.pluralize(12345, "key") == "12,345 keys"


def test_a_negative_change_that_rounds_to_zero_has_no_minus() -> None:
    assert [foundation.text.signed(value, 1) for value in (-0.04, 0.04, -0.06, 12)] == [
        "+0.0",
        "+0.0",
        "-0.1",
        "+12.0",
    ]
    assert foundation.text.signed(-0.4) == "+0"
