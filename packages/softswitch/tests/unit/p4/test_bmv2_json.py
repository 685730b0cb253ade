"""The JSON of compiled programs: the loader makes the same program of it, and BMv2 can read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from softswitch import ir
from softswitch.load import load_program
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from switch_harness import PROGRAMS
from switch_harness.small_programs import compile_small, primitives, written_json

P4SRC = Path(__file__).parents[5] / "p4src"
SOURCES = [
    *sorted(PROGRAMS.parent.glob("*.p4")),
    *(P4SRC / name / f"{name}.p4" for name in ("none", "collect", "hotset")),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_json_of_a_program_loads_to_the_program(source: Path) -> None:
    written_json(compile_file(source, [P4SRC]))


def test_the_text_of_the_json_has_a_line_for_each_primitive(tmp_path: Path) -> None:
    lowered = compile_small(
        tmp_path, ingress_locals=ACTION % "hdr.first.kind = 1; exit;", ingress="t.apply();"
    )
    [exit_line] = [line for line in bmv2_json_text(lowered).decode().splitlines() if '"exit"' in line]
    assert json.loads(exit_line)["op"] == "exit"


ACTION = "action a() { %s } table t { actions = { a; } default_action = a(); }"


STATEMENTS = {
    "assign": "hdr.first.kind = hdr.first.count;",
    "assign_VL": "hdr.list.data = hdr.other_list.data;",
    "assign_header": "hdr.other = hdr.first;",
    "assign_header_stack": "hdr.others = hdr.items;",
    "assign_union_stack": "hdr.more = hdr.many;",
    "add_header": "hdr.items[meta.position].setValid();",
    "remove_header": "hdr.first.setInvalid();",
    "push": "hdr.items.push_front(2);",
    "pop": "hdr.many.pop_front(1);",
    "exit": "exit;",
    "_jump_if_zero": "if (hdr.first.isValid()) { hdr.others = hdr.items; } hdr.first.kind = 1;",
    "_jump": "if (meta.is_set) { meta.kept = 1; } else { hdr.others = hdr.items; } hdr.first.kind = 1;",
    "modify_field_with_hash_based_offset":
        "hash(meta.kept, HashAlgorithm.crc16, 16w1, { hdr.first.kind, 8w7 }, 32w10);",
    "modify_field_rng_uniform": "random(hdr.first.value, 1, (bit<16>) hdr.first.kind);",
    "mark_to_drop": "mark_to_drop(standard);",
    "clone_ingress_pkt_to_egress": "clone_preserving_field_list(CloneType.I2E, 5, 1);",
    "resubmit": "resubmit_preserving_field_list(1);",
    "recirculate": "recirculate_preserving_field_list(1);",
    "generate_digest": "digest<second_t>(1, hdr.second);",
    "truncate": "truncate((bit<32>) hdr.first.kind);",
    "log_msg": 'log_msg("{} and {}", { hdr.first.kind, hdr.first.kind + 1 });',
    "assert": "assert(hdr.first.isValid() && meta.is_set);",
    "assume": "assume(hdr.first.signed < -3);",
}  # fmt: skip


@pytest.mark.parametrize("op", STATEMENTS)
def test_a_statement_is_written_as_its_primitive(op: str, tmp_path: Path) -> None:
    body = STATEMENTS[op]
    document = written_json(compile_small(tmp_path, ingress_locals=ACTION % body, ingress="t.apply();"))
    assert op in [primitive["op"] for primitive in primitives(document)]


OBJECTS = {
    "count": ("counter(4, CounterType.bytes) x;", "x.count(1);"),
    "execute_meter": ("meter(4, MeterType.bytes) x;", "bit<8> c; x.execute_meter(1, c); hdr.first.kind = c;"),
    "register_read": ("register<int<8>>(4) x;", "x.read(hdr.first.signed, (bit<32>) hdr.first.kind);"),
    "register_write": ("register<bool>(4) x;", "x.write(1, meta.is_set);"),
}


@pytest.mark.parametrize("op", OBJECTS)
def test_a_call_of_an_array_names_the_array(op: str, tmp_path: Path) -> None:
    declaration, call = OBJECTS[op]
    document = written_json(compile_small(tmp_path, ingress_locals=declaration, ingress=call))
    [primitive] = [each for each in primitives(document) if each["op"] == op]
    kind = {"count": "counter_array", "execute_meter": "meter_array"}.get(op, "register_array")
    assert {"type": kind, "value": "I.x"} in primitive["parameters"]
    assert [array["name"] for array in document[f"{kind}s"]] == ["I.x"]


VALUES = {
    "hdr.first.value = (bit<16>) hdr.first.kind + 3;": "+",
    "hdr.first.value = -hdr.first.value;": "-",
    "hdr.first.value = hdr.first.value |+| 3;": "usat_cast",
    "hdr.first.signed = hdr.first.signed |-| 3;": "sat_cast",
    "hdr.first.signed = (int<8>) hdr.first.kind;": "two_comp_mod",
    "hdr.first.signed = hdr.first.signed * -3;": "two_comp_mod",
    "hdr.first.value = ~hdr.first.value << hdr.first.kind;": "~",
    "hdr.first.value[3:0] = 5;": "|",
    "meta.is_set = hdr.first.signed >= -5 || !meta.is_set;": "b2d",
    "meta.is_set = meta.is_set == hdr.first.isValid();": "b2d",
    "hdr.first.kind = meta.is_set ? hdr.first.kind : 8w3;": "?",
    "hdr.first.flag = (bit<1>) meta.is_set;": None,
    "meta.is_set = (bool) hdr.first.flag;": None,
    "hdr.items[meta.position].value = 3;": "access_field",
    "hdr.first.value = hdr.items[meta.position].value;": "dereference_header_stack",
    "hdr.many[meta.position].second.setValid();": "access_union_header",
    "hdr.first.value = hdr.many[meta.position].second.value;": "dereference_union_stack",
    "meta.is_set = hdr.first == hdr.other;": "and",
    "meta.is_set = !(meta.is_set ? hdr.first.isValid() : hdr.other.isValid());": "not",
    "meta.is_set = !hdr.items[meta.position].is_on;": "not",
    "hdr.one = hdr.two;": None,
}


@pytest.mark.parametrize(("statement", "op"), VALUES.items())
def test_an_expression_is_written_with_its_operators(statement: str, op: str | None, tmp_path: Path) -> None:
    document = written_json(compile_small(tmp_path, ingress_locals=ACTION % statement, ingress="t.apply();"))
    assert op is None or f'"op": "{op}"' in json.dumps(document["actions"])


def test_positions_of_jumps_count_primitives(tmp_path: Path) -> None:
    """An assignment of a stack is one primitive for several statements, and a loop's count is none."""
    body = """
        if (meta.is_set) { hdr.others = hdr.items; }
        for (bit<8> i = hdr.first.kind; i > 0; i = i - 1) { hdr.first.count = hdr.first.count + i; }
    """
    document = written_json(compile_small(tmp_path, ingress_locals=ACTION % body, ingress="t.apply();"))
    body_primitives = primitives(document)
    assert [each["op"] for each in body_primitives] == [
        "_jump_if_zero", "assign_header_stack", "assign", "_jump_if_zero", "assign", "assign", "_jump",
    ]  # fmt: skip
    targets = [each["parameters"][-1]["value"] for each in body_primitives if each["op"].startswith("_jump")]
    assert targets == ["0x2", "0x7", "0x3"]


STATES = {
    "extract": ("packet.extract(hdr.items.next); packet.extract(hdr.many.next.second);", ["extract"] * 3),
    "extract_VL": ("packet.extract(hdr.list, (bit<32>) hdr.first.kind * 8);", ["extract", "extract_VL"]),
    "advance": (
        "packet.advance(16); packet.advance((bit<32>) hdr.first.kind << 3);",
        ["extract"] + ["advance"] * 2,
    ),
    "verify": ("verify(hdr.first.kind > 3 && meta.is_set, error.NoMatch);", ["extract", "verify"]),
    "computed error": (
        "verify(meta.is_set, meta.is_set ? error.NoMatch : meta.problem);",
        ["extract", "verify"],
    ),
    "last element": ("hdr.first.value = hdr.items.last.value;", ["extract", "verify", "set"]),
    "set": ("hdr.first.value = (bit<16>) hdr.first.kind + 1;", ["extract", "set"]),
    "primitive": (
        "hdr.other = hdr.first; hdr.items[meta.position].value = 3;",
        ["extract"] + ["primitive"] * 2,
    ),
    "lookahead": ("hdr.first.value = 1 + packet.lookahead<bit<16>>();", ["extract", "set", "set"]),
    "signed lookahead": ("hdr.first.signed = packet.lookahead<int<8>>();", ["extract", "set", "set"]),
    "lookahead of a header": (
        "hdr.first = packet.lookahead<first_t>();",
        ["extract", "set", "primitive", *["set"] * 6],
    ),
    "assert": ("assert(hdr.first.isValid());", ["extract", "primitive"]),
}


@pytest.mark.parametrize("construct", STATES)
def test_a_parser_operation_is_written(construct: str, tmp_path: Path) -> None:
    statements, ops = STATES[construct]
    document = written_json(compile_small(tmp_path, parser=f"{statements} transition accept;"))
    [state] = document["parsers"][0]["parse_states"]
    assert [operation["op"] for operation in state["parser_ops"]] == ops


TRANSITIONS = {
    "hdr.first.kind) { 1: accept; 2 &&& 6: accept; default: accept; }": [
        ("0x01", None),
        ("0x02", "0x06"),
        (None, None),
    ],
    "hdr.first.kind, hdr.first.flag) { (1, _): accept; (2, 1): accept; }": [
        ("0x0100", "0xff00"),
        ("0x0201", None),
    ],
    "hdr.first.kind) { 4..7: accept; 0 &&& 0: accept; 9: accept; }": [("0x04", "0xfc"), (None, None)],
    "hdr.items.last.value) { 0x1234: accept; }": [("0x1234", None)],
    "packet.lookahead<bit<4>>()) { 3: accept; }": [("0x03", None)],
}


@pytest.mark.parametrize("select", TRANSITIONS)
def test_a_select_is_written_with_masks_of_whole_bytes(select: str, tmp_path: Path) -> None:
    document = written_json(compile_small(tmp_path, parser=f"transition select({select}"))
    [state] = document["parsers"][0]["parse_states"]
    found = [(case["value"], case["mask"]) for case in state["transitions"]]
    assert found == TRANSITIONS[select]


def test_a_select_on_an_element_at_a_computed_position_is_one_on_a_field(tmp_path: Path) -> None:
    parser = "transition select(hdr.items[meta.position].value) { 3: accept; default: accept; }"
    [state] = written_json(compile_small(tmp_path, parser=parser))["parsers"][0]["parse_states"]
    assert [part["type"] for part in state["transition_key"]] == ["field"]


def test_fields_of_last_elements_are_named(tmp_path: Path) -> None:
    parser = """packet.extract(hdr.items.next); packet.extract(hdr.many.next.second);
        transition select(hdr.items.last.value, hdr.many.last.second.value) {
            (1, 2): accept;
            default: accept;
        }"""
    [state] = written_json(compile_small(tmp_path, parser=parser))["parsers"][0]["parse_states"]
    assert state["transition_key"] == [
        {"type": "stack_field", "value": ["items", "value"]},
        {"type": "union_stack_field", "value": ["many", "second", "value"]},
    ]


def test_members_of_the_last_union_can_be_made_valid_and_assigned(tmp_path: Path) -> None:
    parser = "hdr.many.last.second.setValid(); hdr.many.last.second.value = 3; transition accept;"
    written_json(compile_small(tmp_path, parser=parser))


def test_value_sets_are_written_with_their_widths(tmp_path: Path) -> None:
    document = written_json(
        compile_small(
            tmp_path,
            declarations="struct pair_t { bit<8> kind; bit<16> value; }",
            parser_locals="value_set<pair_t>(7) pairs;",
            parser="transition select(hdr.first.kind, hdr.first.value) { pairs: accept; default: accept; }",
        )
    )
    assert document["parse_vsets"] == [{"name": "P.pairs", "id": 0, "compressed_bitwidth": 24, "max_size": 7}]
    [state] = document["parsers"][0]["parse_states"]
    assert state["transitions"][0] | {"next_state": None} == {
        "type": "parse_vset", "value": "P.pairs", "mask": None, "next_state": None,
    }  # fmt: skip


def test_messages_are_numbered_as_by_the_loader(tmp_path: Path) -> None:
    """The body of a control is lowered before the actions of a table that it applies, and written after."""
    lowered = compile_small(
        tmp_path,
        parser='log_msg("parser"); transition accept;',
        ingress_locals=ACTION % 'log_msg("action");',
        ingress='log_msg("control"); t.apply();',
        deparser='log_msg("deparser");',
    )
    assert lowered.program.messages == ("parser", "action", "control", "deparser")
    written_json(lowered)


def test_a_signed_bit_is_not_its_own_truth_value(tmp_path: Path) -> None:
    """It is 0 or -1."""
    document = written_json(compile_small(tmp_path, ingress="if (meta.is_set) { hdr.first.kind = 1; }"))
    [scalars] = [each for each in document["header_types"] if each["name"] == "$scalars"]
    for is_signed in (False, True):
        for field in scalars["fields"]:
            field[2] = is_signed and field[1] == 1
        nodes = load_program(json.dumps(document)).ingress.nodes.values()
        [condition] = [node.condition for node in nodes if isinstance(node, ir.Conditional)]
        assert isinstance(condition, ir.Binary if is_signed else ir.FieldRef)


def test_reordered_stacks_keep_their_uses(tmp_path: Path) -> None:
    parser = "packet.extract(hdr.items.next); packet.extract(hdr.more.next.second); "
    parser += "hdr.first.kind = (bit<8>) hdr.others.lastIndex; transition accept;"
    body = "hdr.items.push_front(1); hdr.more = hdr.many;"
    document = written_json(compile_small(tmp_path, parser=parser, ingress=body))
    [state] = document["parsers"][0]["parse_states"]
    extracted = [operation["parameters"][0]["value"] for operation in state["parser_ops"][:3]]
    assert extracted == ["first", "items", ["more", "second"]]
    push, copy = primitives(document)
    assert push["parameters"][0]["value"] == "items"
    assert [each["value"] for each in copy["parameters"]] == ["more", "many"]
    assert '{"type": "header_stack", "value": "others"}' in json.dumps(state["parser_ops"][3])


def test_the_field_list_0_has_another_number_as_bmv2_takes_0_for_none(tmp_path: Path) -> None:
    document = written_json(compile_small(tmp_path, ingress="resubmit_preserving_field_list(0);"))
    [kept] = document["field_lists"]
    [resubmit] = [each for each in primitives(document) if each["op"] == "resubmit"]
    assert kept["id"] == 1 and int(resubmit["parameters"][0]["value"], 16) == 1


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("hdr.first.kind = v;", 1),
        ("hdr.first.kind = v; hdr.first.count = v;", 3),
        ("hdr.first.value = (bit<16>) v;", 1),
        ("if (hdr.second.isValid()) { hdr.first.kind = v; }", 2),
        ("meta.position = v; hdr.first.kind = meta.position;", 2),
    ],
)
def test_an_argument_with_one_reader_is_not_stored(body: str, count: int, tmp_path: Path) -> None:
    locals = f"action b(in bit<8> v) {{ {body} }} "
    action = ACTION % "b(hdr.first.kind + hdr.first.count);"
    document = written_json(compile_small(tmp_path, ingress_locals=locals + action, ingress="t.apply();"))
    [found] = [each for each in document["actions"] if each["name"] == "I.a"]
    assert len(found["primitives"]) == count
