"""The rules by which tests judge a JSON find what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from switch_harness.bmv2_rules import violations
from switch_harness.small_programs import Json, compile_small, primitives, written_json

FIELD = {"type": "field", "value": ["first", "kind"]}
BOOL = {"type": "bool", "value": True}


def _first_argument(document: Json) -> Json:
    [assignment] = primitives(document)
    argument: Json = assignment["parameters"][1]
    return argument


def _table(document: Json) -> Json:
    table: Json = document["pipelines"][0]["tables"][0]
    return table


EDITS: dict[str, Callable[[Json], object]] = {
    "`lookahead` in an expression": lambda d: _first_argument(d)["value"]["value"].update(
        left={"type": "lookahead", "value": [0, 8]}
    ),
    "`+` of ['bool', 'data']": lambda d: _first_argument(d)["value"]["value"].update(left=BOOL),
    "without the type of its expression": lambda d: _first_argument(d).update(
        value=_first_argument(d)["value"]["value"]
    ),
    "expected data, got bool": lambda d: _first_argument(d).update(value=BOOL),
    "`lookahead` as an argument": lambda d: _first_argument(d).update(type="lookahead", value=[0, 8]),
    "expected bool, got data": lambda d: d["pipelines"][0]["conditionals"][0].update(expression=FIELD),
    "no node follows": lambda d: d["pipelines"][0]["conditionals"][0].update(true_next="missing"),
    "a node that follows is of no name": lambda d: _table(d).update(base_default_next="missing"),
    "expected what follows each of its actions": lambda d: _table(d).update(next_tables={}),
    "two of its actions have one name": lambda d: _table(d).update(actions=_table(d)["actions"] * 2),
    "no default entry": lambda d: _table(d).pop("default_entry"),
    "a default entry of a table with an action profile": lambda d: _table(d).update(type="indirect"),
    "are no whole bytes": lambda d: d["header_types"][0]["fields"].append(["more", 3, False]),
    "headers: 2 have the name first": lambda d: d["headers"].append({**d["headers"][0], "id": 1000}),
    "headers: 2 have the id 0": lambda d: d["headers"].append({**d["headers"][0], "name": "new"}),
    "nodes have the name": lambda d: d["pipelines"][1]["tables"].append(_table(d)),
    "a select on `expression`": lambda d: d["parsers"][0]["parse_states"][0]["transition_key"].append(
        {"type": "expression", "value": FIELD}
    ),
    "`stack_field` set to": lambda d: d["parsers"][0]["parse_states"][0]["parser_ops"][1]["parameters"][
        0
    ].update(type="stack_field"),
}


@pytest.mark.parametrize("problem", EDITS)
def test_a_document_that_breaks_a_rule_is_found(problem: str, tmp_path: Path) -> None:
    ingress = "if (meta.is_set) { hdr.first.value = hdr.first.value + 3; }"
    parser = "hdr.first.kind = 3; transition accept;"
    document = written_json(compile_small(tmp_path, parser=parser, ingress=ingress))
    EDITS[problem](document)
    assert problem in "\n".join(violations(document))
