"""JSON is read as jsoncpp 1.9.5 reads it, the version of BMv2's packages.

Each text below was given to that library, with the reader that BMv2 uses, and has its verdict.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.errors import ProgramError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.load.json_text import MAX_DEPTH, _Reader, parse_json
from softswitch.pipeline import LogRecord
from switch_harness import PROGRAMS
from switch_harness.constructs import CONSTRUCTS
from switch_harness.effort import examples
from switch_harness.wording import mentions

TAKEN: list[tuple[bytes, Any]] = [
    # Comments and commas.
    (b"// c\n[1]", [1]),
    (b"// c\r[1]", [1]),
    (b"/* c\n */[1]", [1]),
    (b"/*/ [] */[1]", [1]),
    (b"/**/[1]", [1]),
    (b"[1 /*x*/, 2 // y\n]", [1, 2]),
    (b'{/*x*/"a":/*y*/1/*z*/}', {"a": 1}),
    (b"/* \xe4 */[1]", [1]),
    (b"[1,]", [1]),
    (b'{"a":1,}', {"a": 1}),
    (b'{"a":1,/*x*/}', {"a": 1}),
    # What surrounds the value.
    (b"\xef\xbb\xbf[1]", [1]),
    (b"[1] trailing", [1]),
    (b"[1]]", [1]),
    (b"[1]\x00", [1]),
    (b"[1] /* unended", [1]),
    (b"\t\r\n [1]", [1]),
    (b"5", 5),
    # Strings.
    (b'["a\nb\tc\x00d\x01"]', ["a\nb\tc\x00d\x01"]),
    (b'["\xe4\xc3\xa4"]', ["ää"]),
    (b'["\\u00e4\\/\\"\\b"]', ['ä/"\b']),
    (b'["\\ud83d\\ude00"]', ["\U0001f600"]),
    (b'["\\ud83d\\u0041"]', ["\U0001f441"]),
    (b'["\\udc00"]', ["\xed\xb0\x80"]),
    (b'{"\n":1}', {"\n": 1}),
    # Numbers.
    (b"[01, -007]", [1, -7]),
    (b"[-]", [0]),
    (b"[+1]", [1.0]),
    (b"[1., -.5, 1.e5, 1e5]", [1.0, -0.5, 100000.0, 100000.0]),
    (b"[1e-400]", [0.0]),
    (b"[18446744073709551615, -9223372036854775808]", [(1 << 64) - 1, -(1 << 63)]),
    (b"[18446744073709551616, -9223372036854775809]", [2.0**64, -(2.0**63)]),
    # Objects and depth.
    (b'{"a":1,"a":2}', {"a": 2}),
    (b'{"a":{"b":1},"a":{"c":2}}', {"a": {"c": 2}}),
    (b'{"":1}', {"": 1}),
    (b"[" * 1000 + b"]" * 1000, None),
]
REFUSED = [
    b"", b" ", b"// c", b"/* unended", b"# c\n[]", b"/x[1]", b"[,]", b"{,}", b"[1,,2]", b"['a']", b"{a:1}",
    b"{1:2}", b"[1 2]", b"[1", b'["a', b'["\\', b'["\\x"]', b'["\\u12"]', b'["\\u12g4"]', b'["\\ud800"]',
    b'["\\ud800x"]', b"[NaN]", b"[Infinity]", b"[-Infinity]", b"[.5]", b"[1e]", b"[1e+]", b"[1e999]",
    b"[-1e999]", b"[" + b"9" * 400 + b"]", b"[" + b"9" * 5000 + b"]", b"[0x10]", b"[1_000]", b"[--1]",
    b"[- 1]", b"[+]", b"[-e5]", b"[1.5.5]", b"[\xd9\xa1]", b"[True]", b"[tru]", b"\x0c[]", b"\x00[1]",
    b"[1\x00]", b"[1\x0c]", b"[\xa01]", b'{"a" 1}', b'{"a":}', b'{"a"}', b'{"a":1]', b"[1}",
    b"[" * 1001 + b"]" * 1001,
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), TAKEN, ids=lambda item: repr(item)[:40])
def test_texts_that_jsoncpp_accepts_are_parsed_alike(text: bytes, value: Any) -> None:
    parsed = parse_json(text)
    if value is None:
        for _ in range(MAX_DEPTH):
            assert isinstance(parsed, list)
            parsed = next(iter(parsed), None)
    assert parsed == value
    assert repr(parsed) == repr(value)  # 1 and 1.0 are equal, too


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text)[:40])
def test_texts_that_jsoncpp_refuses_are_refused(text: bytes) -> None:
    with pytest.raises(ProgramError, match=mentions("BMv2", "JSON")):
        parse_json(text)


def test_an_error_names_line_and_column() -> None:
    with pytest.raises(ProgramError, match=mentions("line 3", "column 5")):
        parse_json(b"[1,\n /* 2\n */ oops]")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)  # fmt: skip


@settings(max_examples=examples(240))
@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_the_lenient_and_the_standard_reader_agree_on_standard_json(
    value: Any, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert repr(_Reader(text).read()) == repr(parse_json(text.encode())) == repr(value)


EDITS = {
    "Latin-1 in a comment": ("{", "/* \xe4 */ {", 1),
    "a comment first": ("{", "// p4c\n{", 1),
    "a byte order mark": ("{", "\xef\xbb\xbf{", 1),
    "commas at the end": ("}", ",}", -1),
    "leading zeros": ('"id":', '"id":00', -1),
    "a key again": ('"id":', '"id":77,"id":', -1),
}


@pytest.mark.parametrize("edit", EDITS)
def test_programs_with_jsoncpps_extensions_load_equal(edit: str) -> None:
    text = (PROGRAMS / "l3.json").read_text()
    edited = text.replace(*EDITS[edit])
    assert edited != text
    assert load_program(edited.encode("latin-1")) == load_program(text)


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
@pytest.mark.parametrize("text", ["two\nlines", "a\ttab", "\xe4"])
def test_a_log_message_may_contain_control_and_non_ascii_characters(
    text: str, make: type[InterpretedPipeline] | type[CompiledPipeline]
) -> None:
    """The bytes of `log_msg`'s string as they are, which `json` and UTF-8 refuse."""
    document = json.loads((PROGRAMS / "digests_logs.json").read_text())
    for action in document["actions"]:
        for primitive in action["primitives"]:
            if primitive["op"] == "log_msg":
                primitive["parameters"] = [{"type": "string", "value": "MESSAGE"}]
    data = json.dumps(document).encode().replace(b"MESSAGE", text.encode("latin-1"))
    program = load_program(data)
    assert text in program.messages
    pipeline = make(program)
    CONSTRUCTS["digests_logs"].prepare(pipeline)
    random = Random(1)
    for _ in range(20):
        pipeline.process(*CONSTRUCTS["digests_logs"].frame(random), 0, 0)
    assert text in [notice.text for notice in pipeline.take_notices() if isinstance(notice, LogRecord)]
