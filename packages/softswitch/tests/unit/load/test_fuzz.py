"""A JSON with one edit is loaded, or refused with a ProgramError; it never raises another exception."""

from __future__ import annotations

from random import Random

import pytest

from softswitch.errors import ProgramError
from softswitch.load import load_program
from switch_harness import PROGRAMS
from switch_harness.effort import seeds, steps
from switch_harness.json_edits import Editor, bare_error
from switch_harness.wording import mentions

NAMES = sorted(path.stem for path in PROGRAMS.glob("*.json"))


@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("name", NAMES)
def test_an_edited_json_is_loaded_or_refused(name: str, seed: int) -> None:
    editor = Editor((PROGRAMS / f"{name}.json").read_bytes(), Random(f"{name} {seed}"))
    refused = 0
    tries = steps(320)
    for _ in range(tries):
        data = editor.edited()
        program, bare = bare_error(data)
        assert not bare, data
        refused += program is None
    assert 0 < refused < tries


@pytest.mark.parametrize(
    ("place", "edit", "message"),
    [
        ("actions", 7, r"^actions: expected a list, got 7$"),
        ("parsers", [{"init_state": "start"}], r"^parsers\[0\]: expected `parse_states`, there is none$"),
        (
            "counter_arrays",
            [{"name": "a", "size": 1}, {"name": "b", "size": 1, "id": 0}],
            r"^counter_arrays: .*0",
        ),
        ("field_aliases", [["a.b", ["nowhere", "c"]]], r"^field_aliases: expected a field .* `nowhere\.c`$"),
        ("__meta__", {"version": [2]}, r"^__meta__\.version: expected a list of 2, got \[2\]$"),
        ("errors", [["Mine", "x"]], r"^errors\[0\]\[1\]: expected an integer from 0 to 2147483647, got 'x'$"),
    ],
)
def test_an_error_names_the_place_and_the_expected_value(place: str, edit: object, message: str) -> None:
    editor = Editor((PROGRAMS / "l3.json").read_bytes(), Random(0))
    editor.text[place] = edit
    with pytest.raises(ProgramError, match=message):
        load_program(editor.dumped())


def test_log_msg_takes_a_parameters_vector() -> None:
    editor = Editor((PROGRAMS / "digests_logs.json").read_bytes(), Random(0))
    for action in editor.text["actions"]:
        for primitive in action["primitives"]:
            if primitive["op"] == "log_msg":
                primitive["parameters"][1] = {"type": "string", "value": "abc"}
    with pytest.raises(ProgramError, match=mentions("parameters_vector", "string")):
        load_program(editor.dumped())


@pytest.mark.parametrize(
    ("place", "key", "value", "message"),
    [
        ("actions", "source_info", {"line": "x"}, r"source_info\.line: expected an integer"),
        ("actions", "source_info", {"filename": []}, r"source_info\.filename: expected a string"),
        ("actions", "id", 1 << 40, r"id: expected an integer of 32 bits"),
        ("tables", "match_type", "most", r"match_type: expected exact, lpm, ternary or range, got 'most'"),
        ("tables", "with_counters", "x", r"with_counters: expected true or false, got 'x'"),
        ("tables", "base_default_next", "", r"pipeline ingress: expected one of its nodes, got ``"),
    ],
)
def test_values_that_crash_or_fail_bmv2_are_refused(
    place: str, key: str, value: object, message: str
) -> None:
    editor = Editor((PROGRAMS / "l3.json").read_bytes(), Random(0))
    items = editor.text["pipelines"][0]["tables"] if place == "tables" else editor.text[place]
    items[0][key] = value
    with pytest.raises(ProgramError, match=message):
        load_program(editor.dumped())


def test_numbers_are_booleans_as_in_bmv2() -> None:
    editor = Editor((PROGRAMS / "l3.json").read_bytes(), Random(0))
    plain = load_program(editor.dumped())
    editor.text["headers"][0]["metadata"] = int(editor.text["headers"][0]["metadata"])
    assert load_program(editor.dumped()) == plain
