"""Local fields: temporaries of a control, which need no place in the memory of a packet.

The reference walks p4c's JSON, and knows nothing of the loaded program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from softswitch import ir
from softswitch.load import load_program
from softswitch.v1model import STANDARD_METADATA
from switch_harness import PROGRAMS as FOLDER

PROGRAMS = sorted(FOLDER.glob("*.json"))
NEITHER_CONTROL = ("parsers", "deparsers", "checksums", "calculations", "field_lists", "learn_lists")


def fields_in(part: object) -> Iterator[tuple[str, str]]:
    """Yield all fields that a part of the JSON refers to."""
    if isinstance(part, dict):
        if part.get("type") == "field":
            header, field = part["value"]
            yield header, field
        for each in part.values():
            yield from fields_in(each)
    elif isinstance(part, list):
        for each in part:
            yield from fields_in(each)


def local_names(program: ir.Program) -> set[tuple[str, str]]:
    headers = program.headers
    return {
        (headers[ref.header].name, headers[ref.header].fields[ref.field].name) for ref in program.local_fields
    }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_local_fields_are_used_by_one_control_and_by_nothing_else(path: Path) -> None:
    text = path.read_bytes()
    document = json.loads(text)
    names = local_names(load_program(text))
    assert not names & set(fields_in([document[part] for part in NEITHER_CONTROL]))
    assert STANDARD_METADATA not in {header for header, _ in names}
    by_control: list[set[tuple[str, str]]] = []
    for pipeline in document["pipelines"]:
        actions = {index for table in pipeline["tables"] for index in table["action_ids"]}
        by_control.append(
            {*fields_in(pipeline), *fields_in([a for a in document["actions"] if a["id"] in actions])}
        )
    ingress, egress = by_control
    assert not names & ingress & egress
    colours = {tuple(meter["result_target"]) for meter in document["meter_arrays"] if meter["is_direct"]}
    assert names <= ingress | egress | colours


def test_most_temporaries_of_the_programs_are_local() -> None:
    temporaries = found = 0
    for path in PROGRAMS:
        program = load_program(path.read_bytes())
        names = {field.name for header in program.headers if header.metadata for field in header.fields}
        temporaries += sum(name.startswith("tmp") for name in names)
        found += sum(field.startswith("tmp") for _, field in local_names(program))
    assert found > temporaries / 2


def test_fields_of_a_header_that_is_copied_or_hashed_as_a_whole_are_kept() -> None:
    program = load_program((FOLDER / "resubmit_recirculate.json").read_bytes())
    [number] = {ref.header for ref in program.local_fields}
    hashed = ir.Calculation("all", "xor16", (ir.WholeHeader(number),))
    copied = replace(program.actions[0], body=(ir.AssignHeader(number, number),), locations=())
    for changed in (
        replace(program, calculations=(hashed,)),
        replace(program, actions=(copied, *program.actions[1:])),
    ):
        assert not changed.local_fields
