"""P4Info and entries of compiled P4 programs, beside what p4c writes for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import NOWHERE, CompileError, SourceError
from softswitch.p4.lexer import Token, TokenKind
from softswitch.p4.p4info import p4info, p4info_text
from softswitch.p4.p4info_entries import entries, entries_text
from softswitch.p4.p4info_ids import ObjectType, Symbols, name_hash
from softswitch.p4.tree import Annotation
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.messages import p4i, p4r
from switch_harness import PROGRAMS

NAMES = sorted(file.name.removesuffix(".p4info.txtpb") for file in PROGRAMS.glob("*.p4info.txtpb"))
SOURCE = """
#include <core.p4>
#include <v1model.p4>

%(types)s
header word_h { bit<32> a; bit<16> b; bit<8> c; }
struct headers_t { word_h word; }
struct meta_t { bit<32> x; }

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    %(parser)s
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
%(before)s
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) {
    action plain() {}
    action set(bit<32> x) { meta.x = x; }
    %(body)s
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t standard) { apply {} }
control U(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
%(package)s
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""
START = "state start { packet.extract(hdr.word); transition accept; }"


def compiled(folder: Path, body: str, **parts: str) -> Any:
    given = {"types": "", "parser": START, "before": "", "package": "", "body": body, **parts}
    file = folder / "program.p4"
    file.write_text(SOURCE % given)
    return compile_file(file)


def info_of(folder: Path, body: str, **parts: str) -> p4i.P4Info:
    return p4info(compiled(folder, body, **parts))


def names(objects: Any) -> list[str]:
    return [each.preamble.name for each in objects]


@pytest.mark.parametrize("name", NAMES)
def test_p4info_equals_p4info_by_p4c(name: str) -> None:
    lowered = compile_file(PROGRAMS.parent / f"{name}.p4")
    message = p4info(lowered)
    assert p4info_text(message) == (PROGRAMS / f"{name}.p4info.txtpb").read_text()
    config = LoadedConfig(
        p4r.ForwardingPipelineConfig(p4info=message, p4_device_config=b"_"), lowered.program
    )
    assert {each.name for each in config.p4info.tables.values()} == set(names(message.tables))


# -- IDs and aliases


def test_the_first_of_equal_hashes_in_order_of_names_keeps_the_hash() -> None:
    first, second = "ingress.t10718", "ingress.t8383"
    assert name_hash(first) & 0xFFFFFF == name_hash(second) & 0xFFFFFF == 0x484060
    for added in ([first, second], [second, first]):
        symbols = Symbols()
        for name in added:
            symbols.add(ObjectType.TABLE, name)
            symbols.add(ObjectType.ACTION, name)
        symbols.assign()
        assert [symbols.id(ObjectType.TABLE, name) for name in (first, second)] == [0x02484060, 0x02484061]
        assert symbols.id(ObjectType.ACTION, first) == 0x01484060


def test_a_chosen_id_goes_before_hashes() -> None:
    symbols = Symbols()
    symbols.add(ObjectType.TABLE, "ingress.t8383")
    symbols.add(ObjectType.TABLE, "other", [numbered(0x484060)])
    symbols.assign()
    assert symbols.id(ObjectType.TABLE, "other") == 0x02484060
    assert symbols.id(ObjectType.TABLE, "ingress.t8383") == 0x02484061


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0x01000001], "expected an `@id` that begins with 0x02, got 0x1000001"),
        ([7, 0x02000007], "expected an `@id` that no other object has, got 0x2000007 again"),
    ],
)
def test_ids_that_cannot_be_are_refused(given: list[int], message: str) -> None:
    symbols = Symbols()
    with pytest.raises(SourceError, match=re.escape(message)):
        for number in given:
            symbols.add(ObjectType.TABLE, f"t{number}", [numbered(number)])


def numbered(number: int) -> Annotation:
    return Annotation(NOWHERE, "id", [Token(TokenKind.INTEGER, str(number), NOWHERE)])


def test_an_alias_is_the_shortest_end_that_no_other_name_has(tmp_path: Path) -> None:
    inner = """
        control Inner(inout meta_t meta) {
            action plain() { meta.x = 1; }
            table t { actions = { plain; } }
            apply { t.apply(); }
        }"""
    body = """
        Inner() one;
        Inner() two;
        table t { actions = { plain; set; } }
        apply { one.apply(meta); two.apply(meta); t.apply(); }"""
    info = info_of(tmp_path, body, before=inner)
    objects: list[Any] = [*info.tables, *info.actions]
    aliases = {each.preamble.name: each.preamble.alias for each in objects}
    assert aliases == {
        "I.one.t": "one.t", "I.two.t": "two.t", "I.t": "I.t", "NoAction": "NoAction", "I.plain": "I.plain",
        "I.set": "set", "I.one.plain": "one.plain", "I.two.plain": "two.plain",
    }  # fmt: skip


# -- what the control plane sees


def test_unused_tables_and_actions_are_left_out_but_instances_stay(tmp_path: Path) -> None:
    body = """
        action called(bit<32> y) { meta.x = y; }
        action within() { meta.x = 2; }
        action outer() { within(); }
        table unused { actions = { set; } }
        table applied { actions = { outer; plain; } default_action = plain; }
        table never { actions = { set; } }
        table first { actions = { plain; } default_action = plain; }
        table second {
            key = { first.apply().hit: exact @name("hit"); }
            actions = { plain; }
            default_action = plain;
        }
        counter(8, CounterType.packets) idle;
        apply { applied.apply(); second.apply(); called(3); if (false) { never.apply(); } }"""
    info = info_of(tmp_path, body)
    assert names(info.tables) == ["I.applied", "I.first", "I.second"]
    assert names(info.actions) == ["I.plain", "I.called", "I.outer"]
    assert [len(each.params) for each in info.actions] == [0, 0, 0]
    assert names(info.counters) == ["I.idle"]


def test_global_actions_come_first_in_order_of_their_use(tmp_path: Path) -> None:
    outer = 'action a(bit<8> v) {}\naction b() {}\n@name("renamed") action c() {}'
    body = """
        table t { actions = { plain; c; b; } default_action = b; }
        table u { actions = { b; a; } default_action = a(1); }
        apply { t.apply(); u.apply(); }"""
    info = info_of(tmp_path, body, before=outer)
    assert names(info.actions) == ["renamed", "b", "a", "I.plain"]


def test_a_default_action_has_its_data_and_no_action_is_for_misses_alone(tmp_path: Path) -> None:
    body = """
        action pair(@id(7) bit<12> first, bool second) {}
        table t { actions = { @tableonly set; pair; } const default_action = pair(0x123, true); size = 0; }
        table u { key = { hdr.word.a: lpm; } actions = { plain; @defaultonly set; } support_timeout = true; }
        apply { t.apply(); u.apply(); }"""
    info = info_of(tmp_path, body)
    first, second = info.tables
    ids = {each.preamble.name: each.preamble.id for each in info.actions}
    default = first.initial_default_action
    assert first.const_default_action_id == default.action_id == ids["I.pair"]
    assert [(each.param_id, each.value) for each in default.arguments] == [(7, b"\x01\x23"), (2, b"\x01")]
    assert [each.scope for each in first.action_refs] == [
        p4i.ActionRef.TABLE_ONLY,
        p4i.ActionRef.TABLE_AND_DEFAULT,
    ]
    [pair] = [each for each in info.actions if each.preamble.name == "I.pair"]
    assert [(each.id, each.name, each.bitwidth) for each in pair.params] == [
        (7, "first", 12),
        (2, "second", 1),
    ]
    assert first.size == 1024
    refs = [(each.id, each.scope, list(each.annotations)) for each in second.action_refs]
    assert refs == [
        (ids["I.plain"], p4i.ActionRef.TABLE_AND_DEFAULT, []),
        (ids["I.set"], p4i.ActionRef.DEFAULT_ONLY, ["@defaultonly"]),
        (ids["NoAction"], p4i.ActionRef.DEFAULT_ONLY, ["@defaultonly"]),
    ]
    assert (second.idle_timeout_behavior, second.const_default_action_id) == (p4i.Table.NOTIFY_CONTROL, 0)


def test_keys_have_the_names_and_ids_of_p4c(tmp_path: Path) -> None:
    body = """
        const bit<32> MASK = 0xF0;
        table t {
            key = {
                hdr.word.isValid(): exact;
                hdr.word.a & MASK: ternary;
                hdr.word.b[7:4]: range @id(2);
                hdr.word.c + 1: optional @name("sum");
                meta.x: exact @brief("what it is");
            }
            actions = { plain; }
        }
        apply { t.apply(); }"""
    [table] = info_of(tmp_path, body).tables
    assert [(each.id, each.name, each.bitwidth) for each in table.match_fields] == [
        (1, "hdr.word.$valid$", 1), (3, "hdr.word.a & 0xf0", 32), (2, "hdr.word.b[7:4]", 4), (4, "sum", 8),
        (5, "meta.x", 32),
    ]  # fmt: skip
    assert table.match_fields[4].doc.brief == "what it is"


# -- annotations


def test_annotations_are_kept_as_text_as_structures_or_as_documentation(tmp_path: Path) -> None:
    body = """
        @brief("\\"short\\"") @field_list(1, 2) @description("a long one") @name("renamed")
        @mark @list(1, "two", a.b) @noWarn("unused")
        @pairs[size=2*3, is_on=true, text="x"] @values[1, "y", 1 == 2]
        table t { actions = { plain; } }
        apply { t.apply(); }"""
    package = """
        @pkginfo(name="program", version="7", contact="c")
        @platform_property(multicast_group_table_size=5) @other"""
    info = info_of(tmp_path, body, package=package)
    preamble = info.tables[0].preamble
    assert (preamble.name, preamble.doc.brief, preamble.doc.description) == (
        "I.renamed",
        '\\"short\\"',
        "a long one",
    )
    assert list(preamble.annotations) == [
        "@field_list(1, 2)",
        "@mark",
        '@list(1 , "two" , a . b)',
        '@noWarn("unused")',
    ]
    pairs, values = preamble.structured_annotations
    assert [each.key for each in pairs.kv_pair_list.kv_pairs] == ["size", "is_on", "text"]
    assert pairs.kv_pair_list.kv_pairs[0].value.int64_value == 6
    assert [each.WhichOneof("value") for each in values.expression_list.expressions] == [
        "int64_value", "string_value", "bool_value",
    ]  # fmt: skip
    package_info = info.pkg_info
    assert (package_info.name, package_info.version, package_info.contact) == ("program", "7", "c")
    assert (package_info.arch, list(package_info.annotations)) == ("v1model", ["@other"])
    assert package_info.platform_properties.multicast_group_table_size == 5


# -- externs, types, packets


def test_profiles_meters_and_counters_know_their_tables(tmp_path: Path) -> None:
    body = """
        direct_counter(CounterType.packets_and_bytes) hits;
        direct_meter<bit<2>>(MeterType.bytes) rate;
        direct_counter(CounterType.bytes) of_no_table;
        @max_group_size(4) @mark action_selector(HashAlgorithm.crc16, 32, 16) shared;
        table z {
            key = { hdr.word.a: exact; hdr.word.b: selector; }
            actions = { set; }
            implementation = shared;
        }
        table y {
            key = { hdr.word.a: exact; hdr.word.b: selector; }
            actions = { set; }
            implementation = shared;
        }
        table x {
            key = { hdr.word.a: exact; }
            actions = { set; }
            @name("in_place") implementation = action_profile(8);
        }
        table w { key = { hdr.word.a: exact; } actions = { set; } counters = hits; meters = rate; }
        apply { z.apply(); y.apply(); x.apply(); w.apply(); }"""
    info = info_of(tmp_path, body)
    tables = {each.preamble.name: each for each in info.tables}
    shared, in_place = info.action_profiles
    assert (shared.preamble.name, shared.with_selector, shared.max_group_size) == ("I.shared", True, 4)
    assert list(shared.preamble.annotations) == ["@mark"]
    assert list(shared.table_ids) == [tables["I.y"].preamble.id, tables["I.z"].preamble.id]
    assert (in_place.preamble.name, in_place.size, in_place.with_selector) == ("in_place", 8, False)
    assert tables["I.x"].implementation_id == in_place.preamble.id
    [counter], [meter] = info.direct_counters, info.direct_meters
    assert list(tables["I.w"].direct_resource_ids) == [counter.preamble.id, meter.preamble.id]
    assert (counter.spec.unit, meter.spec.unit) == (p4i.CounterSpec.BOTH, p4i.MeterSpec.BYTES)
    assert counter.direct_table_id == meter.direct_table_id == tables["I.w"].preamble.id


def test_conditions_in_an_annotation_of_several_lines_select_its_lines(tmp_path: Path) -> None:
    text = '@restriction("\n#ifdef ABSENT\na;\n#else\nb; # c\n#endif\n# 1 (\n")'
    info = info_of(tmp_path, f"{text} table t {{ actions = {{ plain; }} }} apply {{ t.apply(); }}")
    assert list(info.tables[0].preamble.annotations) == ['@restriction("\n\n\n\nb; # c\n\n# 1 (\n")']


def test_a_condition_without_end_in_a_string_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r":19:1: error: expected `#endif` in the string"):
        info_of(tmp_path, '@restriction("\n#if 1\n") table t { actions = { plain; } } apply { t.apply(); }')


TYPES = """
    enum Colour { RED, GREEN }
    enum bit<12> Kind { SMALL = 1, LARGE = 0x100 }
    type bit<32> Plain;
    @p4runtime_translation("a/uri", string) type bit<32> Text;
    @p4runtime_translation("b/uri", bit<48>) @mark type bit<32> Number;
    struct inner_t { Number number; Kind kind; Colour colour; }
    struct report_t { inner_t inner; bool flag; int<8> signed; tuple<bit<4>, error> pair; }
    @controller_header("packet_in") header in_h { bit<9> port; @hidden bit<3> spare; @id(9) Kind kind; }
    struct set_t { bit<8> c; @match(ternary) bit<16> b; }
"""


@pytest.mark.parametrize("annotation", ["", "@hidden "])
def test_a_program_with_hidden_tables_only_has_no_information_on_types(
    annotation: str, tmp_path: Path
) -> None:
    info = info_of(tmp_path, f"{annotation}table t {{ actions = {{ plain; }} }} apply {{ t.apply(); }}")
    assert info.HasField("type_info") == (not annotation)


def test_types_are_described_with_all_of_their_parts(tmp_path: Path) -> None:
    body = """
        action typed(Text text, Plain plain, Number number, Kind kind) {}
        table t { actions = { typed; } }
        apply {
            t.apply();
            digest<report_t>(1, { { (Number)1, Kind.SMALL, Colour.RED }, true, 1, { 1, error.NoError } });
        }"""
    value_set = "value_set<set_t>(4) chosen;" + START.replace(
        "transition accept;", "transition select(hdr.word.c, hdr.word.b) { chosen: accept; default: reject; }"
    )
    info = info_of(tmp_path, body, types=TYPES, parser=value_set)
    types = info.type_info
    params = [(each.name, each.bitwidth, each.type_name.name) for each in info.actions[1].params]
    assert params == [("text", 0, "Text"), ("plain", 32, "Plain"), ("number", 48, "Number"), ("kind", 12, "")]
    assert types.new_types["Text"].translated_type.HasField("sdn_string")
    assert types.new_types["Number"].translated_type.sdn_bitwidth == 48
    assert list(types.new_types["Number"].annotations) == ["@mark"]
    assert types.new_types["Plain"].original_type.bitstring.bit.bitwidth == 32
    assert [each.name for each in types.enums["Colour"].members] == ["RED", "GREEN"]
    assert [each.value for each in types.serializable_enums["Kind"].members] == [b"\x00\x01", b"\x01\x00"]
    members = types.structs["report_t"].members
    assert [(each.name, each.type_spec.WhichOneof("type_spec")) for each in members] == [
        ("inner", "struct"), ("flag", "bool"), ("signed", "bitstring"), ("pair", "tuple"),
    ]  # fmt: skip
    assert types.error.members[0] == "NoError"
    [digest], [packet], [chosen] = info.digests, info.controller_packet_metadata, info.value_sets
    assert (digest.preamble.name, digest.type_spec.struct.name) == ("report_t", "report_t")
    assert (packet.preamble.name, packet.preamble.alias) == ("packet_in", "packet_in")
    assert [(each.id, each.name, each.bitwidth) for each in packet.metadata] == [
        (1, "port", 9),
        (9, "kind", 12),
    ]
    matches = [(each.id, each.name, each.bitwidth, each.match_type) for each in chosen.match]
    assert matches == [(1, "c", 8, p4i.MatchField.EXACT), (2, "b", 16, p4i.MatchField.TERNARY)]


def test_digests_without_a_named_type_are_numbered(tmp_path: Path) -> None:
    body = """
        action send() { digest<tuple<bit<32>, bit<8>>>(1, { meta.x, hdr.word.c }); }
        table t { actions = { send; } }
        apply { t.apply(); digest<tuple<bit<32>>>(1, { meta.x }); }"""
    assert names(info_of(tmp_path, body).digests) == ["digest_0", "digest_1"]


def test_type_info_is_there_once_p4c_looked_for_types(tmp_path: Path) -> None:
    verifying = START.replace("transition", "verify(hdr.word.c == 1, error.NoMatch); transition")
    for body in ("apply { plain(); }", "apply { plain(); static_assert(true); }"):
        assert "type_info" not in p4info_text(info_of(tmp_path, body, parser=verifying))
    for body in (
        "apply { mark_to_drop(standard); }",
        "table t { actions = { plain; } } apply { t.apply(); }",
    ):
        assert p4info_text(info_of(tmp_path, body)).endswith("type_info {\n}\n")


# -- entries


def test_entries_have_priorities_and_canonical_matches(tmp_path: Path) -> None:
    body = """
        table t {
            key = { hdr.word.a: lpm; hdr.word.b: ternary; hdr.word.c: range; }
            actions = { set; }
            const entries = {
                (0x0A000000 &&& 0xFF000000, 0x1234 &&& 0xFF00, 1..3): set(5);
                (_, _, 0..255): set(6);
            }
        }
        apply { t.apply(); }"""
    lowered = compiled(tmp_path, body)
    assert p4info(lowered).tables[0].is_const_table
    first, second = [each.entity.table_entry for each in entries(lowered).updates]
    assert [each.field_id for each in first.match] == [1, 2, 3]
    assert (first.match[0].lpm.value, first.match[0].lpm.prefix_len) == (b"\x0a\0\0\0", 8)
    assert (first.match[1].ternary.value, first.match[1].ternary.mask) == (b"\x12\0", b"\xff\0")
    assert (first.match[2].range.low, first.match[2].range.high) == (b"\x01", b"\x03")
    assert (first.priority, second.priority, first.is_const, len(second.match)) == (2, 1, True, 0)
    assert first.action.action.params[0].value == b"\0\0\0\x05"
    head = "# proto-file: p4/v1/p4runtime.proto\n# proto-message: p4.v1.WriteRequest\n\n"
    assert entries_text(entries(lowered)).startswith(f"{head}updates {{\n  type: INSERT\n")


@pytest.mark.parametrize(
    ("properties", "written", "priorities"),
    [
        ("", ("", "", ""), [(3, 1), (2, 2), (1, 3)]),
        ("largest_priority_wins = false; priority_delta = 10;", ("", "", ""), [(1, 1), (11, 2), (21, 3)]),
        ("priority_delta = 5;", ("priority=20:", "", ""), [(20, 1), (15, 2), (10, 3)]),
        ("", ("priority=20:", "", "priority=30:"), [(30, 3), (20, 1), (19, 2)]),
    ],
)
def test_priorities_are_implied_by_the_program(
    properties: str, written: tuple[str, str, str], priorities: list[tuple[int, int]], tmp_path: Path
) -> None:
    lines = "".join(f"{each} {i}: set({i});" for i, each in enumerate(written, 1))
    body = f"""
        table t {{
            key = {{ hdr.word.b: ternary; }}
            actions = {{ set; }}
            {properties}
            entries = {{ {lines} }}
        }}
        apply {{ t.apply(); }}"""
    made = [each.entity.table_entry for each in entries(compiled(tmp_path, body)).updates]
    assert [(each.priority, each.action.action.params[0].value[-1]) for each in made] == priorities


def test_an_implied_priority_below_zero_is_refused(tmp_path: Path) -> None:
    body = """
        table t {
            key = { hdr.word.b: ternary; }
            actions = { set; }
            priority_delta = 10;
            entries = { priority=12: 1: set(1); 2: set(2); 3: set(3); }
        }
        apply { t.apply(); }"""
    with pytest.raises(CompileError, match=r"priority.*-8"):
        compiled(tmp_path, body)


def test_an_unknown_version_of_v1model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "program.p4"
    for version in (20180100, 20200409):
        file.write_text(f"#define V1MODEL_VERSION {version}\n#include <v1model.p4>\n")
        with pytest.raises(CompileError, match="from 20180101 to 20200408"):
            compile_file(file)


def test_a_key_without_a_name_is_refused(tmp_path: Path) -> None:
    body = "table t { key = { hdr.word.a + 1: exact; } actions = { plain; } } apply { t.apply(); }"
    with pytest.raises(CompileError, match="after this key, whose expression is no name"):
        compiled(tmp_path, body)


# -- what P4Info cannot have


@pytest.mark.parametrize(
    ("body", "package", "message"),
    [
        ("@id(1, 2) table t { actions = { plain; } } apply { t.apply(); }", "", "one number in `@id`"),
        (
            "table t { actions = { plain; } size = 0x80000000; } apply { t.apply(); }", "",
            "expected a size below 2^31, got 2147483648",
        ),
        ("register<bit<8>>(0x80000000) r; apply {}", "", "expected a size below 2^31, got 2147483648"),
        (
            '@selector_size_semantics("sum") action_selector(HashAlgorithm.crc16, 2, 2) s; apply {}', "",
            'expected "sum_of_weights" or "sum_of_members", got sum',
        ),
        (
            "@max_group_size(many) action_selector(HashAlgorithm.crc16, 2, 2) s; apply {}", "",
            "expected one number in `@max_group_size`",
        ),
        (
            "@big[0x8000000000000000] table t { actions = { plain; } } apply { t.apply(); }", "",
            "expected a number of 64 bits in `@big`, got 9223372036854775808",
        ),
        (
            "apply {}", '@platform_property(multicast_group_table_size="x")',
            "expected a number below 2^31 as `multicast_group_table_size`, got x",
        ),
        ("apply {}", "@pkginfo(version=plain)", "expected a declared name, got `plain`"),
        (
            "apply {}", "@pkginfo(version=error.NoError)",
            "expected a number, a bool or a string in an annotation",
        ),
    ],
)  # fmt: skip
def test_annotations_beyond_p4info_are_refused(body: str, package: str, message: str, tmp_path: Path) -> None:
    lowered = compiled(tmp_path, body, package=package)
    with pytest.raises(CompileError, match=re.escape(message)):
        p4info(lowered)


def test_names_that_macros_make_have_the_white_space_of_the_source(tmp_path: Path) -> None:
    macros = """
#define STRING_OF(text) #text
#define STRING(text) STRING_OF(text)
#define PLACE left.right
#define WITHIN(outer, inner) STRING(outer.inner)"""
    body = """
        @name(STRING(x.PLACE.y)) register<bit<8>>(1) a;
        @name(WITHIN( one ,  two )) register<bit<8>>(1) b;
        @name(STRING(p
q)) register<bit<8>>(1) c;
        apply {}"""
    assert names(info_of(tmp_path, body, types=macros).registers) == [
        "I.x.left.right.y",
        "I.one.two",
        "I.p q",
    ]
