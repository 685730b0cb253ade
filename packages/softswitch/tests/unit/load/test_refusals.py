"""What the switch cannot do is refused at load, with the construct and the line p4c recorded."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from softswitch.errors import ProgramError, UnsupportedConstruct
from softswitch.hashing import ALGORITHMS
from softswitch.load import load_program
from softswitch.load.expressions import BINARY_OPS, CASTS, UNARY_OPS
from softswitch.load.statements import PRIMITIVES
from switch_harness import PROGRAMS

TEXT: dict[str, Any] = json.loads((PROGRAMS / "l3.json").read_text())


def table(text: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(t for t in text["pipelines"][0]["tables"] if t["name"].endswith(name))
    return found


def primitive(text: dict[str, Any]) -> dict[str, Any]:
    action = next(a for a in text["actions"] if a["name"].endswith("next_hop"))
    found: dict[str, Any] = action["primitives"][0]
    return found


def state(text: dict[str, Any]) -> dict[str, Any]:
    start: dict[str, Any] = text["parsers"][0]["parse_states"][0]
    return start


COMPUTED = {"type": "expression", "value": {"op": "access_field"}}
CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (
        lambda t: table(t, "L3Ingress.routes")["key"][0].update(target=COMPUTED),
        r"l3.p4:\d+: a computed field as a key \(which BMv2 does not",
    ),
    (
        lambda t: state(t)["parser_ops"].append(
            {"op": "extract", "parameters": [{"type": "regular", "value": COMPUTED}]}
        ),
        r"parser state start: a header at a computed position",
    ),
    (
        lambda t: table(t, "L3Ingress.routes")["key"][0].update(match_type="selector"),
        r"l3.p4:\d+: selector key `prefix` of table `L3Ingress.routes` is not supported",
    ),
    (
        lambda t: table(t, "L3Ingress.routes").update(type="stateful"),
        r"l3.p4:\d+: table `L3Ingress.routes` of type stateful is not",
    ),
    (
        lambda t: primitive(t).update(op="add_header_fast"),
        r"l3.p4:\d+: primitive `add_header_fast` is not supported by softswitch",
    ),
    (
        lambda t: primitive(t)["parameters"][1].update(type="register", value=["cells", 0]),
        r"l3.p4:\d+: an expression of type `register`",
    ),
    (
        lambda t: primitive(t)["parameters"][0].update(type="hexstr", value="0x1"),
        r"l3.p4:\d+: assignment to `0x1` \(hexstr\)",
    ),
    (lambda t: t["extern_instances"].append({"name": "mine"}), "user-defined extern `mine`"),
    (
        lambda t: t["calculations"][0].update(algo="round_robin"),
        r"l3.p4:\d+: hash algorithm `round_robin`",
    ),
    (
        lambda t: t["calculations"][0]["input"].insert(0, {"type": "payload"}),
        r"l3.p4:\d+: calculation `calc` with inputs after the payload",
    ),
    (
        lambda t: state(t)["parser_ops"].append({"op": "rewind", "parameters": [1]}),
        r"parser state start: parser operation `rewind`",
    ),
    (
        lambda t: state(t)["transitions"][0].update(type="range"),
        r"parser state start: transition of type `range`",
    ),
    (
        lambda t: t["header_types"][3]["fields"].extend([["x", 4, False], ["options", "*"]]),
        r"varbit field `.*options` that does not start at a whole byte",
    ),
]


@pytest.mark.parametrize(
    ("part", "text"), [("value", "0x0800aa"), ("value", "0x08"), ("mask", "0xff"), ("mask", "0x0fffff")]
)
def test_values_of_transitions_are_as_wide_as_the_key(part: str, text: str) -> None:
    """BMv2 refuses others, too. An odd number of digits gets a leading zero."""
    program = copy.deepcopy(TEXT)
    case = state(program)["transitions"][0]
    assert case["value"] == "0x0800"
    case[part] = "0x800"
    load_program(json.dumps(program))
    case[part] = text
    message = rf"parser state start: transition {part}: expected 2 bytes, got `{text}`"
    with pytest.raises(ProgramError, match=message):
        load_program(json.dumps(program))


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_unsupported_constructs_are_refused_by_name(change: Callable[[Any], object], message: str) -> None:
    text = copy.deepcopy(TEXT)
    change(text)
    with pytest.raises(UnsupportedConstruct, match=message):
        load_program(json.dumps(text))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "is not JSON"),
        (b"[]", "not a BMv2 program"),
        (b"{}", "not a BMv2 program"),
        (json.dumps({**TEXT, "parsers": []}).encode(), "parsers: expected one"),
    ],
)
def test_an_invalid_program_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        load_program(data)


def test_the_compiled_programs_match_the_digests_of_their_sources() -> None:
    """`make p4` writes the digest; it fails here when sources have changed and the artefacts have not."""
    lines = (PROGRAMS / "sources.sha256").read_text().splitlines()
    recorded = {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}
    sources = {
        f"./{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in PROGRAMS.parent.glob("*.p4")
    }
    assert sources == recorded


def no_primitives() -> list[str]:
    """Names that Python's objects have, that methods of the loader might have, and the near ones."""
    internal = [name for value in (object, int, dict, type, len) for name in dir(value)]
    loader = [f"_{name}" for name in PRIMITIVES] + [
        "_load_copy",
        "_load_drop",
        "_scope",
        "_location",
        "_item",
    ]
    others = [
        "clone",
        "assert_condition",
        "",
        " assign",
        "assign ",
        "Assign",
        "assign.__call__",
        "self",
        "mro",
    ]
    return sorted({*internal, *loader, *others} - PRIMITIVES.keys())


def test_only_primitives_of_the_table_load() -> None:
    names = no_primitives()
    assert len(names) > 100
    lists: list[list[Any]] = [[], primitive(TEXT)["parameters"]]
    for name in names:
        text = copy.deepcopy(TEXT)
        for parameters in lists:
            primitive(text).update(op=name, parameters=parameters)
            with pytest.raises(UnsupportedConstruct, match=re.escape(f"primitive `{name}` is not supported")):
                load_program(json.dumps(text))


def test_all_hash_algorithms_load() -> None:
    for name, algorithm in ALGORITHMS.items():
        text = copy.deepcopy(TEXT)
        text["calculations"][0]["algo"] = name
        assert load_program(json.dumps(text)).calculations[0].function is algorithm


@pytest.mark.parametrize("op", [*BINARY_OPS, *UNARY_OPS, *CASTS, "?", "d2b", "b2d"])
@pytest.mark.parametrize("depth", [40, 400, 4000])
def test_nested_expressions_load_or_are_refused_as_too_deep(op: str, depth: int) -> None:
    """Also where `json` gives up (4,000), and where `json` does not, but the loader's own stack ends."""
    one = '{"type": "hexstr", "value": "0x1"}'
    last, others = (
        ("left", ("right",)) if op in CASTS else ("right", ("cond", "left"))
    )  # a cast's width is right
    operands = "".join(f'"{part}": {one}, ' for part in others)
    nested = (
        f'{{"type": "expression", "value": {{"op": "{op}", {operands}"{last}": ' * depth + one + "}}" * depth
    )
    text = copy.deepcopy(TEXT)
    primitive(text)["parameters"][1] = "NESTED"
    data = json.dumps(text).replace('"NESTED"', nested)
    if depth == 40:
        load_program(data)
        return
    with pytest.raises(ProgramError, match=r"nested too deep|at most 1000 nested values"):
        load_program(data)
