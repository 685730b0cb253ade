"""A program without P4Info, some of whose actions are called directly, too.

For a direct call p4c prints a copy of the action with the call's arguments in place of its data; for some, a
table without a key that runs the copy.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from softswitch.commands.names import ProgramNames as Names
from softswitch.errors import ProgramError
from softswitch.load import load_program
from softswitch.p4runtime.generated_p4info import generate_config
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.testing import Switch
from switch_harness import PROGRAMS
from switch_harness.wording import mentions

NAMES = sorted(
    path.stem
    for path in PROGRAMS.glob("*.json")
    if any(action["runtime_data"] for action in json.loads(path.read_text())["actions"])
)
Json = dict[str, Any]  # a part of a program, whose values depend on the key


def add_calls(document: Json, at_start: bool) -> list[str]:
    """Add a copy of each action with data, which an action call runs; return the actions' names."""
    originals = [action for action in document["actions"] if action["runtime_data"]]
    first_id = 1 + max((action["id"] for action in document["actions"]), default=0)
    for number, original in enumerate(originals, first_id):
        called = {**original, "id": number, "runtime_data": [], "primitives": []}
        document["actions"].insert(0 if at_start else len(document["actions"]), called)
        call = {"name": f"call_{number}", "id": number, "action_id": number, "next_node": None}
        document["pipelines"][0].setdefault("action_calls", []).append(call)
    return [action["name"] for action in originals]


def add_tables(document: Json, at_start: bool) -> list[str]:
    """Do as `add_calls`, with tables without a key in place of action calls."""
    names = add_calls(document, at_start)
    pipeline = document["pipelines"][0]
    for call in pipeline.pop("action_calls", []):
        action = next(action for action in document["actions"] if action["id"] == call["action_id"])
        default = {
            "action_id": call["action_id"], "action_const": True, "action_data": [],
            "action_entry_const": True,
        }  # fmt: skip
        table = {
            "name": f"tbl_{call['name']}", "id": 1000 + call["id"], "match_type": "exact", "type": "simple",
            "max_size": 1024, "with_counters": False, "support_timeout": False, "direct_meters": None,
            "action_ids": [call["action_id"]], "actions": [action["name"]], "key": [],
            "base_default_next": None, "next_tables": {action["name"]: None}, "default_entry": default,
        }  # fmt: skip
        pipeline["tables"].insert(0 if at_start else len(pipeline["tables"]), table)
    return names


ADDITIONS: list[Callable[[Json, bool], list[str]]] = [add_calls, add_tables]


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("add", ADDITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_controllers_see_the_action_of_tables(
    name: str, add: Callable[[Json, bool], list[str]], at_start: bool
) -> None:
    document = json.loads((PROGRAMS / f"{name}.json").read_text())
    plain, plain_names = parameters(document), Names(json.dumps(document)).actions.by_name
    assert set(add(document, at_start)) <= plain.keys()
    assert parameters(document) == plain
    assert Names(json.dumps(document)).actions.by_name == plain_names


def parameters(document: Json) -> dict[str, list[tuple[str, int]]]:
    """Return what the generated P4Info says of each action's data, if the switch takes it."""
    data = json.dumps(document).encode()
    program = load_program(data)
    config = LoadedConfig(generate_config(data, program), program)
    return {
        action.preamble.name: [(p.name, p.bitwidth) for p in action.params]
        for action in config.message.p4info.actions
    }


@pytest.mark.parametrize("add", ADDITIONS)
def test_entries_take_the_data_of_the_action(add: Callable[[Json, bool], list[str]], tmp_path: Path) -> None:
    document = json.loads((PROGRAMS / "l2.json").read_text())
    assert add(document, True) == ["L2Ingress.forward"]
    program = tmp_path / "program.json"
    program.write_text(json.dumps(document))
    with Switch(program) as switch:
        switch.run("table_add hosts forward 00:00:00:00:00:0b => 2")
        frame = bytes.fromhex("00000000000b 00000000000a 0800") + bytes(46)
        switch.expect(1, frame, (2, frame))


def test_tables_with_different_actions_of_one_name_are_refused_by_name() -> None:
    """P4Info has one action of a name; p4c prints none such in tables with a key."""
    document = json.loads((PROGRAMS / "l2.json").read_text())
    table = next(t for t in document["pipelines"][0]["tables"] if t["name"] == "L2Ingress.hosts")
    forward = next(a for a in document["actions"] if a["name"] == "L2Ingress.forward")
    other = {**copy.deepcopy(forward), "id": 99, "runtime_data": [], "primitives": []}
    document["actions"].append(other)
    ids = [99 if number == forward["id"] else number for number in table["action_ids"]]
    document["pipelines"][0]["tables"].append(
        {**copy.deepcopy(table), "name": "second", "id": 99, "action_ids": ids}
    )
    data = json.dumps(document)
    with pytest.raises(ProgramError, match=mentions("second", "L2Ingress.forward")):
        generate_config(data.encode(), load_program(data))
