"""Names in compiled programs are those of their sources, up to the `$` that the compiler adds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import softswitch.p4
from foundation.designs.programs import P4Program, include_folders, included_by, programs_of, trees
from softswitch.ir.names import source_field_name, source_name
from softswitch.p4.compiler import preprocess_file
from softswitch.p4.diagnostics import SourceFiles

PROGRAMS = {program.source.stem: program for tree in trees() for program in programs_of(tree)}
LIBRARIES = sorted(Path(softswitch.p4.__file__).parent.joinpath("include").glob("*.p4"))
NAMED = (
    "parse_vsets", "meter_arrays", "counter_arrays", "register_arrays", "calculations", "learn_lists",
    "header_stacks", "header_unions", "header_union_stacks",
)  # fmt: skip


def names_of(document: dict[str, Any]) -> Iterator[str]:
    """Yield the names of all parts of a program that `softswitch explain` can show."""
    types = {each["name"]: each["fields"] for each in document["header_types"]}
    for header in document["headers"]:
        yield source_name(header["name"])
        yield from (source_field_name(header["name"], field[0]) for field in types[header["header_type"]])
    for kind in NAMED:
        yield from (source_name(each["name"]) for each in document[kind])
    for action in document["actions"]:
        yield source_name(action["name"])
        yield from (data["name"] for data in action["runtime_data"])
    for state in document["parsers"][0]["parse_states"]:
        yield source_name(state["name"])
    for pipeline in document["pipelines"]:
        for table in pipeline["tables"]:
            yield source_name(table["name"])
            yield from (part["name"] for part in table["key"])


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", text))


@cache
def words_of(file: Path) -> set[str]:
    return words(file.read_text())


def words_after_macros(program: P4Program) -> set[str]:
    return words(preprocess_file(program.source, include_folders(), (), SourceFiles()))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_each_name_of_a_compiled_program_is_in_its_source(program: P4Program) -> None:
    names = set(names_of(json.loads(program.json.read_bytes())))
    unknown = words(" ".join(names)).difference(
        *map(words_of, (*included_by(program.source), *LIBRARIES)), {"standard_metadata"}
    )
    assert not unknown or unknown <= words_after_macros(program)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_each_line_of_a_compiled_program_is_in_its_source(program: P4Program) -> None:
    text = program.json.read_text()
    files = {str(file): len(file.read_text().splitlines()) for file in included_by(program.source)}
    places = set(re.findall(r'"filename": "([^"]+)",\s+"line": (\d+)', text))
    assert places
    for name, line in places:
        assert any(file.endswith(name) and int(line) <= count for file, count in files.items()), (name, line)
