"""JSON without fields that BMv2 does not require, or in the form of older compilers, is the same program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from softswitch import ir
from softswitch.commands.names import ProgramNames as Names
from softswitch.compiled import CompiledPipeline
from softswitch.errors import ProgramError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.pipeline import Output
from switch_harness import PROGRAMS
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.wording import mentions

Json = dict[str, Any]  # a part of a program, whose values depend on the key
FRAMES = 40


def states(text: Json) -> list[Json]:
    return [state for parser in text["parsers"] for state in parser["parse_states"]]


def tables(text: Json) -> list[Json]:
    return [table for pipeline in text["pipelines"] for table in pipeline["tables"]]


ANY = object()


def remove(items: list[Json], keys: list[str], value: object = ANY) -> None:
    """Remove keys where they have this value, or everywhere."""
    for item in items:
        for key in keys:
            if value is ANY or item.get(key, ANY) == value:
                item.pop(key, None)


def remove_types(text: Json) -> None:
    for state in states(text):
        for case in state["transitions"]:
            if case["type"] == "default":
                case["value"] = "default"
            if case["type"] != "parse_vset":
                del case["type"]


def remove_core_errors(text: Json) -> None:
    """Remove the errors if they are the core library's alone, with the numbers that the switch gives them."""
    if [code for _, code in text["errors"]] == list(range(7)):
        del text["errors"]


def default_first(text: Json) -> None:
    for state in states(text):
        state["transitions"].sort(key=lambda case: case["type"] != "default")


def spell_p4_14(text: Json) -> None:
    for action in text["actions"]:
        for primitive in action["primitives"]:
            if primitive["op"] == "assign":
                primitive["op"] = "modify_field"


def remove_unused_metadata(text: Json) -> None:
    """Remove fields of `standard_metadata` that only the switch uses, with their aliases."""
    names = ["mcast_grp", "egress_rid", "priority", "ingress_global_timestamp", "parser_error"]
    text["field_aliases"] = [pair for pair in text["field_aliases"] if pair[1][1] not in names]
    rest = json.dumps(
        [text[key] for key in ("parsers", "actions", "pipelines", "field_lists", "learn_lists")]
    )
    for item in text["header_types"]:
        if item["name"] == "standard_metadata":
            item["fields"] = [f for f in item["fields"] if f[0] not in names or f'"{f[0]}"' in rest]


def remove_false(text: Json) -> None:
    remove(text["headers"], ["metadata"], False)
    remove(tables(text), ["with_counters"], False)


def conditionals(text: Json) -> list[Json]:
    return [node for pipeline in text["pipelines"] for node in pipeline["conditionals"]]


OMISSIONS: dict[str, Callable[[Json], None]] = {
    "default first": default_first,
    "types of transitions": remove_types,
    "errors": remove_core_errors,
    "P4_14": spell_p4_14,
    "standard metadata": remove_unused_metadata,
    "false": remove_false,
    "action IDs": lambda text: remove(tables(text), ["action_ids"]),
    "profiles": lambda text: remove(text["pipelines"], ["action_profiles"], []),
    "true of checksums": lambda text: remove(text["checksums"], ["verify", "update"], True),
    "next of conditionals": lambda text: remove(conditionals(text), ["true_next", "false_next"], None),
    "empty lists": lambda text: remove([text], list(text), []),
}


@pytest.mark.parametrize("omission", OMISSIONS)
@pytest.mark.parametrize("name", sorted(CONSTRUCTS))
def test_programs_without_optional_fields_load_equal_and_behave_alike(name: str, omission: str) -> None:
    text, complete = json.loads(text_of(name)), compiled(name)
    OMISSIONS[omission](text)
    written = json.dumps(text)
    is_changed = written != rewritten(name)
    try:
        reduced = load_program(written) if is_changed else loaded_rewritten(name)
    except ProgramError as error:
        # Without IDs, BMv2 cannot find an action either if several have its name.
        assert "expected one action" in str(error)
        return
    if reduced != complete:  # equal programs are interpreted alike
        run_alike(name, InterpretedPipeline(complete), InterpretedPipeline(reduced))
    names = names_in_commands(written) if is_changed else names_of_rewritten(name)
    assert names == names_of_program(name)


@cache
def text_of(name: str) -> str:
    return (PROGRAMS / f"{name}.json").read_text()


@cache
def rewritten(name: str) -> str:
    """Return what a change that has nothing to change in a program writes."""
    return json.dumps(json.loads(text_of(name)))


@cache
def loaded_rewritten(name: str) -> ir.Program:
    return load_program(rewritten(name))


@cache
def names_of_program(name: str) -> dict[str, object]:
    return names_in_commands(text_of(name))


@cache
def names_of_rewritten(name: str) -> dict[str, object]:
    return names_in_commands(rewritten(name))


def names_in_commands(text: str) -> dict[str, object]:
    return {kind: getattr(names, "by_name", names) for kind, names in vars(Names(text)).items()}


@pytest.mark.parametrize("name", ["replication", "profiles", "value_sets"])
def test_programs_without_optional_fields_behave_alike_in_machine_code(name: str) -> None:
    text, complete = json.loads(text_of(name)), compiled(name)
    for omission, change in OMISSIONS.items():
        if omission != "action IDs":
            change(text)
    run_alike(name, InterpretedPipeline(complete), CompiledPipeline(load_program(json.dumps(text))))


def objects(value: Any) -> Iterator[Json]:
    """Yield all objects of a JSON, inner ones first."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)
    if isinstance(value, dict):
        yield value


def wrap_expressions(text: Json) -> None:
    """Put each expression into one more."""
    for item in objects(text):
        if item.get("type") == "expression":
            item["value"] = {"type": "expression", "value": item["value"]}


def write_numbers_without_prefix(text: Json) -> None:
    for item in objects([text["actions"], text["pipelines"], text["parsers"]]):
        if item.get("type") == "hexstr" and "next_state" not in item:
            item["value"] = f"{int(item['value'], 16):x}"


def write_numbers_of_errors(text: Json) -> None:
    for state in states(text):
        for operation in state["parser_ops"]:
            if operation["op"] == "verify":
                operation["parameters"][1] = int(operation["parameters"][1]["value"], 16)


def omit_signs(text: Json) -> None:
    for item in text["header_types"]:
        item["fields"] = [field[:2] if field[2:] == [False] else field for field in item["fields"]]


def write_drop(text: Json) -> None:
    """Write the primitive without parameter."""
    for item in objects(text["actions"]):
        if item.get("op") == "mark_to_drop" and item["parameters"][0]["value"] == "standard_metadata":
            item.update(op="drop", parameters=[])


def add_what_is_not_read(text: Json) -> None:
    """Add the keys of other versions that no switch needs."""
    text.update(program="a.p4", enums=[{"name": "e", "entries": [["x", 0]]}], force_arith=[])
    text["__meta__"] = {"version": [2, 0], "compiler": "p4c"}
    for item in text["headers"] + text["actions"] + tables(text):
        item.update(pragmas=["alias a b"], pi_omit=True)
    for item in text["header_types"]:
        item.setdefault("length_exp", None)


GENERATIONS: dict[str, Callable[[Json], None]] = {
    "expressions in expressions": wrap_expressions,
    "numbers without prefix": write_numbers_without_prefix,
    "errors as numbers": write_numbers_of_errors,
    "fields without sign": omit_signs,
    "keys that are not read": add_what_is_not_read,
    "no version": lambda text: remove([text], ["__meta__", "program"]),
    "nulls": lambda text: remove(tables(text), ["direct_meters", "entries"], None),
    "drop": write_drop,
}
"""What p4c printed otherwise at some time, without another meaning."""


def without_lines(name: str) -> Json:
    """Return a program without source lines."""
    text: Json = json.loads(text_of(name))
    remove(list(objects(text)), ["source_info"])
    return text


@cache
def written_without_lines(name: str) -> str:
    return json.dumps(without_lines(name))


@cache
def loaded_without_lines(name: str) -> ir.Program:
    return load_program(written_without_lines(name))


@pytest.mark.parametrize("generation", GENERATIONS)
def test_programs_of_other_compiler_generations_load_equal(generation: str) -> None:
    """Not only for these frames: the loaded programs are equal, and so is the code that is made of them."""
    changed = 0
    for name in CONSTRUCTS:
        text = json.loads(written_without_lines(name))
        GENERATIONS[generation](text)
        written = json.dumps(text)
        if written != written_without_lines(name):
            changed += 1
            assert load_program(written) == loaded_without_lines(name), name
    assert changed


def test_source_lines_change_no_statement() -> None:
    for name in CONSTRUCTS:
        with_lines, plain = compiled(name), loaded_without_lines(name)
        assert [a.body for a in plain.actions] == [a.body for a in with_lines.actions]
        assert plain.parser == with_lines.parser


def run_alike(name: str, *pipelines: InterpretedPipeline | CompiledPipeline) -> None:
    for pipeline in pipelines:
        CONSTRUCTS[name].prepare(pipeline)
        pipeline.seed_random(7)
    random = Random(name)
    for now in range(0, FRAMES * 10, 10):
        port, frame = CONSTRUCTS[name].frame(random)
        first, second = (pipeline.process(port, frame, now, now + 3) for pipeline in pipelines)
        assert first == second


# -- features that current compilers do not emit


def l3() -> Json:
    text: Json = json.loads((PROGRAMS / "l3.json").read_text())
    return text


def test_core_errors_are_numbered_after_the_programs_own_errors() -> None:
    text = l3()
    text["errors"] = [["Mine", 3], ["PacketTooShort", 1]]
    errors = load_program(json.dumps(text)).errors
    assert (errors["Mine"], errors["PacketTooShort"], errors["NoError"], errors["NoMatch"]) == (3, 1, 4, 5)


def test_intrinsic_metadata_is_an_alias_of_standard_metadata() -> None:
    text = l3()
    fields = next(t for t in text["header_types"] if t["name"] == "standard_metadata")["fields"]
    fields[:] = [f for f in fields if f[0] != "mcast_grp"]
    text["field_aliases"] = []
    text["header_types"].append({"name": "intrinsic", "id": 90, "fields": [["mcast_grp", 4]]})
    own = {"name": "intrinsic_metadata", "id": 91, "header_type": "intrinsic", "metadata": True}
    text["headers"].append(own)
    program = load_program(json.dumps(text))
    ref = program.field_index["intrinsic_metadata", "mcast_grp"]
    assert program.field_index["standard_metadata", "mcast_grp"] == ref
    assert program.width(ref) == 4


@pytest.mark.parametrize(
    ("op", "parameters", "value"),
    [("add_to_field", ["0x03"], 8), ("subtract_from_field", ["0x06"], 511), ("bit_xor", ["0x0f", "0x06"], 9),
     ("shift_left", ["0x03", "0x02"], 12), ("add", ["0x1ff", "0x03"], 2)],
)  # fmt: skip
def test_primitives_of_p4_14_compute_the_expected_values(op: str, parameters: list[str], value: int) -> None:
    """`egress_spec`, which has 9 bits, is 5 before the primitive; 511 drops the packet."""
    port = {"type": "field", "value": ["standard_metadata", "egress_spec"]}
    start = {"op": "modify_field", "parameters": [port, {"type": "hexstr", "value": "0x05"}]}
    listed = [{"type": "hexstr", "value": each} for each in parameters]
    changed = {"op": op, "parameters": [port, *listed]}
    assert [o.port for o in outputs_of_call([start, changed])] == [value] * (value != 511)


def outputs_of_call(primitives: list[Json]) -> list[Output]:
    """Run an action call whose action has these primitives, as ingress's only node."""
    text = l3()
    text["actions"].append({"name": "called", "id": 77, "runtime_data": [], "primitives": primitives})
    call = {"name": "call", "id": 0, "action_id": 77, "next_node": None}
    text["pipelines"][0].update(tables=[], conditionals=[], action_calls=[call], init_table="call")
    text["pipelines"][1].update(tables=[], conditionals=[], init_table=None)
    program = load_program(json.dumps(text))
    interpreted = InterpretedPipeline(program).process(0, bytes(64), 0, 0)
    assert CompiledPipeline(program).process(0, bytes(64), 0, 0) == interpreted
    return interpreted


def test_valid_keys_are_exact_keys_on_validity() -> None:
    text = l3()
    table = tables(text)[0]
    table["key"] = [{"match_type": "valid", "target": "ipv4"}]
    table.pop("entries", None)
    (part,) = load_program(json.dumps(text)).tables[table["name"]].key
    assert isinstance(part.source, ir.IsValid)
    assert (part.kind, part.width) == (ir.MatchKind.EXACT, 1)
    assert Names(json.dumps(text)).tables[table["name"]].key == (("ipv4_valid", "valid", 1),)


def test_an_indirect_table_may_declare_its_own_profile() -> None:
    text = l3()
    table = tables(text)[0]
    table.update(type="indirect", act_prof_name="mine")
    table.pop("default_entry", None)
    table.pop("entries", None)
    profiles = load_program(json.dumps(text)).profiles
    assert profiles == (ir.ActionProfile("mine", table["max_size"], None),)
    names = Names(json.dumps(text))
    assert names.tables[table["name"]].profile is names.profiles["mine"]


def test_an_alias_is_a_key_in_commands() -> None:
    text = l3()
    key = tables(text)[0]["key"][0]
    text["field_aliases"].append(["short.name", key["target"]])
    width = Names(json.dumps(text)).tables[tables(text)[0]["name"]].key[0].width
    key.update(target=["short", "name"])
    assert Names(json.dumps(text)).tables[tables(text)[0]["name"]].key[0].width == width == 32


def test_an_action_call_is_no_table_in_commands() -> None:
    text = l3()
    text["pipelines"][0]["action_calls"] = [{"name": "call", "id": 0, "action_id": text["actions"][0]["id"]}]
    assert "call" in load_program(json.dumps(text)).tables
    assert Names(json.dumps(text)).tables.find("call") is None


def test_an_unknown_next_state_accepts() -> None:
    text = l3()
    states(text)[0]["transitions"][0]["next_state"] = "nowhere"
    assert load_program(json.dumps(text)).parser[0].cases[0].state is None


def test_a_cycle_of_tables_is_refused() -> None:
    text = l3()
    nodes = [*text["pipelines"][0]["tables"], *text["pipelines"][0]["conditionals"]]
    text["pipelines"][0]["tables"][-1]["base_default_next"] = text["pipelines"][0]["init_table"]
    assert len(nodes) > 1
    with pytest.raises(ProgramError, match=mentions("cycle", "nodes")):
        load_program(json.dumps(text))


def test_the_parser_and_the_deparser_are_found_by_name() -> None:
    text = l3()
    other = {
        "name": "other",
        "id": 1,
        "init_state": "nothing",
        "parse_states": [{"name": "nothing", "id": 0}],
    }
    text["parsers"].insert(0, other)
    text["deparsers"].insert(0, {"name": "other", "id": 1, "order": []})
    assert load_program(json.dumps(text)) == load_program(json.dumps(l3()))
