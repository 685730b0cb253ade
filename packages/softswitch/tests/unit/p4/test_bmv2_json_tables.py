"""The JSON of compiled programs: tables, arrays, checksums, headers, and the places of all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch import ir
from softswitch.p4.diagnostics import CompileError
from switch_harness.small_programs import Json, compile_small, primitives, written_json

TABLE = """
action set(bit<16> value, bool on) { hdr.first.value = value; meta.is_set = on; }
action leave() { exit; }
%s
table t { %s actions = { set; leave; NoAction; } %s }
"""


def table_json(
    folder: Path, key: str, properties: str = "", declarations: str = "", use: str = "t.apply();"
) -> Json:
    document = written_json(
        compile_small(folder, ingress_locals=TABLE % (declarations, key, properties), ingress=use)
    )
    [table] = [table for table in document["pipelines"][0]["tables"] if table["name"] == "I.t"]
    return {**table, "document": document}


KEYS = {
    "exact": ("hdr.first.kind: exact;", "exact"),
    "prefix": ("hdr.first.kind: exact; hdr.first.value: lpm;", "lpm"),
    "ternary": ("hdr.first.kind: ternary; hdr.first.value: lpm;", "ternary"),
    "optional": ("hdr.first.kind: optional; hdr.first.count: exact;", "ternary"),
    "range": ("hdr.first.kind: range; hdr.first.value: ternary;", "range"),
    "validity": ("hdr.first.isValid(): exact; meta.is_set: exact;", "exact"),
    "computed": ('hdr.first.kind + 1: exact @name("sum");', "exact"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_table_has_the_kind_of_its_key(kind: str, tmp_path: Path) -> None:
    key, match_type = KEYS[kind]
    table = table_json(tmp_path, f"key = {{ {key} }}")
    assert table["match_type"] == match_type


def test_a_masked_key_has_its_mask(tmp_path: Path) -> None:
    [part] = table_json(tmp_path, "key = { hdr.first.value & 0xff0: exact; }")["key"]
    assert part["mask"] == "0x0ff0"
    assert part["target"] == ["first", "value"]


def test_entries_are_written_with_places_and_priorities(tmp_path: Path) -> None:
    parts = "hdr.first.kind: ternary; hdr.first.value: lpm; hdr.first.count: range; hdr.other.kind: optional;"
    entries = """const entries = {
        (1 &&& 3, 0x1200 &&& 0xff00, 3..5, 7): set(0x34, true);
        (_, _, _, _): leave();
    }"""
    table = table_json(tmp_path, f"key = {{ {parts} }}", entries)
    first, second = table["entries"]
    assert [match["match_type"] for match in first["match_key"]] == ["ternary", "lpm", "range", "ternary"]
    assert first["match_key"][1] == {"match_type": "lpm", "key": "0x1200", "prefix_length": 8}
    assert first["match_key"][2] == {"match_type": "range", "start": "0x03", "end": "0x05"}
    assert first["action_entry"]["action_data"] == ["0x0034", "0x01"]
    assert (first["priority"], second["priority"]) == (1, 2)
    assert first["source_info"]["source_fragment"].startswith("(1 &&& 3")
    assert table["max_size"] == 2


def test_a_branch_on_a_hit_is_written_as_the_successor_of_a_hit(tmp_path: Path) -> None:
    use = "if (t.apply().hit) { hdr.first.kind = 1; } else { hdr.first.kind = 2; }"
    table = table_json(tmp_path, "key = { hdr.first.kind: exact; }", use=use)
    assert table["next_tables"].keys() == {"__HIT__", "__MISS__"}
    assert None not in table["next_tables"].values()


def test_a_switch_on_the_action_is_written_as_the_successor_of_each_action(tmp_path: Path) -> None:
    use = "switch (t.apply().action_run) { set: { hdr.first.kind = 1; } default: { hdr.first.kind = 2; } }"
    table = table_json(tmp_path, "key = { hdr.first.kind: exact; }", use=use)
    following = table["next_tables"]
    assert following["I.set"] != following["I.leave"] == following["NoAction"] is not None


def test_a_default_action_is_written_with_its_data(tmp_path: Path) -> None:
    table = table_json(tmp_path, "key = { hdr.first.kind: exact; }", "const default_action = set(3, true);")
    entry = table["default_entry"]
    assert entry["action_data"] == ["0x0003", "0x01"]
    assert entry["action_const"] is entry["action_entry_const"] is True


def test_a_table_of_a_profile_has_no_default_entry(tmp_path: Path) -> None:
    declarations = "action_profile(16) plain; action_selector(HashAlgorithm.crc16, 32, 8) chosen;"
    key = "key = { hdr.first.kind: exact; }"
    table = table_json(tmp_path, key, "implementation = plain;", declarations)
    assert (table["type"], table["action_profile"]) == ("indirect", "I.plain")
    key = "key = { hdr.first.kind: exact; hdr.first.value: selector; }"
    table = table_json(tmp_path, key, "implementation = chosen;", declarations)
    assert (table["type"], table["action_profile"]) == ("indirect_ws", "I.chosen")
    key = "key = { hdr.first.kind: exact; }"
    properties = "implementation = plain; const default_action = NoAction();"
    assert "default_entry" not in table_json(tmp_path, key, properties, declarations)


def test_a_selector_has_the_fields_of_its_key(tmp_path: Path) -> None:
    declarations = "action_selector(HashAlgorithm.crc16, 32, 8) chosen;"
    key = "key = { hdr.first.kind: exact; hdr.first.value: selector; }"
    table = table_json(tmp_path, key, "implementation = chosen;", declarations)
    [profile] = table["document"]["pipelines"][0]["action_profiles"]
    assert profile["max_size"] == 32
    assert profile["selector"]["input"] == [{"type": "field", "value": ["first", "value"]}]


def test_a_miss_of_a_table_with_a_profile_goes_on_as_its_default_action(tmp_path: Path) -> None:
    use = (
        "switch (t.apply().action_run) { NoAction: { hdr.first.kind = 1; } default: { hdr.first.kind = 2; } }"
    )
    properties = "implementation = plain;"
    table = table_json(
        tmp_path, "key = { hdr.first.kind: exact; }", properties, "action_profile(16) plain;", use
    )
    assert table["base_default_next"] == table["next_tables"]["NoAction"] != table["next_tables"]["I.set"]


def test_direct_counters_and_meters_are_bound_to_their_table(tmp_path: Path) -> None:
    document = written_json(
        compile_small(
            tmp_path,
            ingress_locals="""
                direct_counter(CounterType.packets) hits; direct_meter<bit<8>>(MeterType.bytes) rate;
                counter(4, CounterType.packets) all_hits; meter(2, MeterType.packets) all_rates;
                action a() { rate.read(hdr.first.kind); hits.count(); all_hits.count(1); }
                table t {
                    key = { hdr.first.count: exact; } actions = { a; NoAction; }
                    counters = hits; meters = rate; size = 32; support_timeout = true;
                }""",
            ingress="t.apply(); all_rates.execute_meter(0, hdr.first.kind);",
        )
    )
    [table] = [table for table in document["pipelines"][0]["tables"] if table["name"] == "I.t"]
    assert table["with_counters"] is table["support_timeout"] is True
    assert table["direct_meters"] == "I.rate"
    bindings = {array["name"]: array.get("binding") for array in document["counter_arrays"]}
    assert bindings == {"I.all_hits": None, "I.hits": "I.t"}
    direct_meter = document["meter_arrays"][1]
    assert (direct_meter["name"], direct_meter["size"], direct_meter["type"]) == ("I.rate", 32, "bytes")
    assert direct_meter["result_target"][0] == "$scalars"


def test_an_action_reads_the_colour_where_its_table_has_the_meter_and_nowhere_else(tmp_path: Path) -> None:
    tables = """
        direct_meter<bit<8>>(MeterType.bytes) rate;
        action colour() { rate.read(meta.position); }
        table t { key = { hdr.first.kind: exact; } actions = { colour; NoAction; } meters = rate; }
        table u { key = { hdr.first.kind: exact; } actions = { colour; NoAction; } }"""
    document = written_json(compile_small(tmp_path, ingress_locals=tables, ingress="t.apply(); u.apply();"))
    actions = [each["primitives"] for each in document["actions"] if each["name"] == "I.colour"]
    assert sorted(map(len, actions)) == [0, 1]


def test_a_table_with_an_empty_list_of_constant_entries_takes_no_entry(tmp_path: Path) -> None:
    table = "table t { key = { hdr.first.kind: exact; } actions = { NoAction; } const entries = { } }"
    document = written_json(compile_small(tmp_path, ingress_locals=table, ingress="t.apply();"))
    [made] = [each for pipeline in document["pipelines"] for each in pipeline["tables"] if each["key"]]
    assert made["entries"] == []


def test_checksums_are_written_with_conditions(tmp_path: Path) -> None:
    data = "{ hdr.first.kind, 8w3 }, hdr.second.value, HashAlgorithm.csum16"
    update = f"update_checksum_with_payload(true, {data}); if (meta.is_set) update_checksum(true, {data});"
    document = written_json(
        compile_small(
            tmp_path,
            verify=f"verify_checksum(hdr.first.isValid() && hdr.first.kind > 3, {data});",
            update=update,
        )
    )
    checksums = document["checksums"]
    assert [(each["verify"], each["update"]) for each in checksums] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert checksums[1]["if_cond"] == {"type": "bool", "value": True}
    assert checksums[2]["if_cond"]["value"]["op"] == "d2b"
    calculations = {each["name"]: each["input"] for each in document["calculations"]}
    constant = {"type": "hexstr", "value": "0x03", "bitwidth": 8}
    assert calculations[checksums[0]["calculation"]][1] == constant
    assert calculations[checksums[1]["calculation"]][2] == {"type": "payload", "value": None}


def test_an_applied_control_computes_checksums_of_its_arguments(tmp_path: Path) -> None:
    data = "{ word.kind }, sum, HashAlgorithm.csum16"
    before = f"""
        control Sum(in first_t word, inout bit<16> sum) {{
            apply {{ if (word.isValid()) update_checksum(true, {data}); }}
        }}"""
    document = written_json(
        compile_small(tmp_path, declarations=before, update="Sum.apply(hdr.first, hdr.second.value);")
    )
    [checksum] = document["checksums"]
    assert (checksum["target"], checksum["update"]) == (["second", "value"], True)
    assert checksum["if_cond"]["value"]["op"] == "d2b"


def test_lists_of_fields_have_ids(tmp_path: Path) -> None:
    document = written_json(
        compile_small(
            tmp_path,
            ingress="clone_preserving_field_list(CloneType.I2E, 1, 1); digest<second_t>(1, hdr.second);",
            egress="clone(CloneType.E2E, (bit<32>) hdr.first.kind);",
        )
    )
    assert {"clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress"} <= {
        p["op"] for p in primitives(document)
    }
    kept = {"type": "field", "value": ["$scalars", "meta.kept"]}
    assert sorted((each["id"], each["elements"]) for each in document["field_lists"]) == [
        (1, [kept]),
        (2, []),
    ]
    [digest] = document["learn_lists"]
    assert [each["value"][1] for each in digest["elements"]] == ["value", "is_on", "rest"]
    assert digest["source_info"]["line"] > 0


def test_headers_have_types_and_groups(tmp_path: Path) -> None:
    document = written_json(compile_small(tmp_path))
    types = {each["name"]: each for each in document["header_types"]}
    assert types["first_t"]["fields"][2] == ["signed", 8, True]
    assert types["list_t"]["fields"][1] == ["data", "*"]
    assert types["list_t"]["max_length"] == 10
    names = {each["id"]: each["name"] for each in document["headers"]}
    [items, _] = document["header_stacks"]
    assert [names[each] for each in items["header_ids"]] == ["items[0]", "items[1]", "items[2]"]
    assert document["header_union_types"] == [
        {"name": "either_t", "id": 0, "headers": [["first", "first_t"], ["second", "second_t"]]}
    ]
    unions = {each["id"]: each["name"] for each in document["header_unions"]}
    [many, _] = document["header_union_stacks"]
    assert [unions[each] for each in many["header_union_ids"]] == ["many[0]", "many[1]"]
    assert ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]] in document["field_aliases"]
    assert document["enums"] == [{"name": "Choice", "entries": [["LEFT", 0], ["RIGHT", 1]]}]
    assert document["errors"][:2] == [["NoError", 0], ["PacketTooShort", 1]]
    assert document["__meta__"]["version"] == [2, 23]
    assert document["program"].endswith("small.p4")


def test_a_value_set_that_no_select_uses_has_one_width(tmp_path: Path) -> None:
    """The JSON has only the sum."""
    declarations = "struct pair_t { bit<8> kind; bit<16> value; }"
    lowered = compile_small(tmp_path, declarations=declarations, parser_locals="value_set<pair_t>(7) pairs;")
    assert lowered.program.value_sets == (ir.ValueSet("P.pairs", (24,), 7),)
    written_json(lowered)


def test_a_varbit_field_has_whole_bytes(tmp_path: Path) -> None:
    declarations = "header odd_t { bit<4> length; bit<4> kind; varbit<12> data; }"
    document = written_json(
        compile_small(tmp_path, declarations=declarations, ingress="odd_t odd; odd.setValid();")
    )
    [odd] = [each for each in document["header_types"] if each["name"] == "odd_t"]
    assert odd["max_length"] == 3


def test_a_varbit_field_within_a_byte_is_refused(tmp_path: Path) -> None:
    declarations = "header odd_t { bit<4> length; varbit<16> data; bit<4> kind; }"
    with pytest.raises(CompileError, match="the varbit field of odd_t to begin at a whole byte"):
        compile_small(tmp_path, declarations=declarations, ingress="odd_t odd; odd.setValid();")


def test_stacks_of_unions_come_after_stacks_of_headers(tmp_path: Path) -> None:
    """The frame declares them before; the loader numbers the stacks of headers first."""
    lowered = compile_small(
        tmp_path, ingress="hdr.others = hdr.items; hdr.more = hdr.many; hdr.many.push_front(1);"
    )
    assert [stack.name for stack in lowered.program.stacks][:2] == ["items", "others"]
    written_json(lowered)


def test_two_variables_of_one_name_are_two_stacks(tmp_path: Path) -> None:
    union = "either_t u; u.second.setValid();"
    body = f"{union} second_t[2] s; s[0].setValid(); s.push_front(1); hdr.first.value = s[1].value;"
    controls = f"control C(inout headers_t hdr) {{ apply {{ {body} }} }}"
    document = written_json(
        compile_small(tmp_path, declarations=controls, ingress="C.apply(hdr); C.apply(hdr);")
    )
    assert len({stack["name"] for stack in document["header_stacks"]}) == len(document["header_stacks"]) == 4


def test_a_copy_of_standard_metadata_can_be_dropped(tmp_path: Path) -> None:
    ingress = "standard_metadata_t copy = standard; mark_to_drop(copy); hdr.first.value = copy.egress_rid;"
    document = written_json(compile_small(tmp_path, ingress=ingress))
    [drop] = [each for each in primitives(document) if each["op"] == "mark_to_drop"]
    [header] = drop["parameters"]
    assert header["value"] != "standard_metadata"
    assert header["value"] in [each["name"] for each in document["headers"] if each["metadata"]]


def test_nodes_of_both_controls_have_different_names(tmp_path: Path) -> None:
    control = "control C(inout headers_t hdr) { apply { if (hdr.first.kind == 1) { hdr.first.kind = 2; } } }"
    written_json(
        compile_small(tmp_path, declarations=control, ingress="C.apply(hdr);", egress="C.apply(hdr);")
    )


def test_an_implied_default_action_can_follow_hidden_actions(tmp_path: Path) -> None:
    """The hidden actions of ingress have numbers before egress is lowered."""
    declarations = "action nothing() {} table t { key = { hdr.first.kind: exact; } actions = { nothing; } }"
    document = written_json(
        compile_small(
            tmp_path, ingress="hdr.first.kind = 3; if (meta.is_set) { hdr.first.kind = 4; }",
            egress_locals=declarations, egress="t.apply();",
        )
    )  # fmt: skip
    [table] = document["pipelines"][1]["tables"]
    assert table["actions"] == ["E.nothing", "NoAction"]


def test_objects_of_a_control_that_a_body_makes_are_numbered(tmp_path: Path) -> None:
    control = "control C(inout headers_t hdr) { counter(8, CounterType.packets) c; apply { c.count(1); } }"
    document = written_json(compile_small(tmp_path, declarations=control, ingress="C.apply(hdr);"))
    assert [array["name"] for array in document["counter_arrays"]] == ["I.C.c"]


def test_a_table_that_is_applied_twice_with_one_successor_is_one_table(tmp_path: Path) -> None:
    use = "if (meta.is_set) {\n t.apply();\n } else {\n t.apply();\n }"
    table = table_json(tmp_path, "key = { hdr.first.kind: exact; }", use=use)
    assert "table t" in table["source_info"]["source_fragment"]


def test_statements_and_conditions_have_their_places(tmp_path: Path) -> None:
    lowered = compile_small(tmp_path, ingress="if (hdr.first.isValid()) {\n    hdr.first.kind = 3;\n}")
    document = written_json(lowered)
    lines = (tmp_path / "small.p4").read_text().splitlines()
    [conditional] = document["pipelines"][0]["conditionals"]
    place = conditional["source_info"]
    assert place["filename"] == str(tmp_path / "small.p4")
    assert place["source_fragment"].startswith("hdr.first.isValid()")
    assert lines[place["line"] - 1][place["column"] :].startswith("hdr.first.isValid()")
    [primitive] = primitives(document)
    place = primitive["source_info"]
    assert (place["column"], place["source_fragment"]) == (4, "hdr.first.kind = 3")
    assert lines[place["line"] - 1].strip() == "hdr.first.kind = 3;"


def test_primitives_of_a_deparser_are_written(tmp_path: Path) -> None:
    document = written_json(compile_small(tmp_path, deparser='log_msg("sent"); assert(hdr.first.kind > 0);'))
    [deparser] = document["deparsers"]
    assert [primitive["op"] for primitive in deparser["primitives"]] == ["log_msg", "assert"]
    assert deparser["order"][:2] == ["first", "other"]
