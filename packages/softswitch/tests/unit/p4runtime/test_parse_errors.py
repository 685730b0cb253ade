"""Errors of protobuf's text format stay one short line."""

from __future__ import annotations

import pytest
from google.protobuf import text_format

from softswitch.p4runtime.messages import p4i
from softswitch.p4runtime.parse_errors import describe_parse_error


@pytest.mark.parametrize(
    "text", ["{" + "x" * 100_000, "tables { preamble { id: 1 } " + "y" * 9_000, "a" * 500]
)
def test_an_error_shows_the_beginning_of_a_long_line_with_its_place(text: str) -> None:
    with pytest.raises(text_format.ParseError) as raised:
        text_format.Parse(text, p4i.P4Info())
    shown = describe_parse_error(raised.value)
    line, column, _ = shown.split(":", 2)
    assert (int(line), int(column)) == (raised.value.GetLine(), raised.value.GetColumn())
    assert len(shown) < 250


def test_a_short_line_is_shown_whole() -> None:
    with pytest.raises(text_format.ParseError) as raised:
        text_format.Parse("tables {\n  7\n}", p4i.P4Info())
    assert describe_parse_error(raised.value) == str(raised.value)
