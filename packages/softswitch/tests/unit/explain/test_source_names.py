"""What is explained of a compiled P4 program has the names of its source, also with `--all`."""

from __future__ import annotations

import re

import click
import pytest

from softswitch.errors import SwitchError
from softswitch.explain.filters import parse_filter
from softswitch.explain.record import Recorder
from softswitch.explain.tree import draw, make_tree
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.ir.names import source_field_name, source_name, unique_name
from softswitch.load import load_program
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.testing.coverage import Coverage

SOURCE = """#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header label_t { bit<8> kind; bit<8> value; }
struct headers_t { ethernet_t ethernet; label_t label; label_t[2] labels; }
struct metadata_t { bit<8> kept; tuple<bit<8>, bit<8>> pair; }
bit<8> larger(bit<8> a, bit<8> b) {
    if (a > b) { return a; }
    return b;
}
parser P(packet_in packet, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    bit<8> seen;
    state start {
        packet.extract(hdr.ethernet);
        seen = packet.lookahead<bit<8>>();
        if (seen == 1) { packet.extract<label_t>(_); }
        packet.extract(hdr.label);
        transition select(hdr.label.kind) { 2: more; default: accept; }
    }
    state more {
        packet.extract(hdr.labels.next);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t m) { apply {} }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(4) cells;
    bit<8> value;
    action set(bit<8> kept) { m.kept = kept; }
    table t {
        key = { hdr.label.value + 1: exact @name("next value"); }
        actions = { set; NoAction; }
        default_action = set(7);
    }
    apply {
        cells.read(value, 1);
        { bit<8> value_of_first = value + 1; m.kept = value_of_first & value_of_first & value_of_first; }
        { bit<8> value_of_first = hdr.label.value; m.kept = m.kept ^ value_of_first; }
        m.pair = { larger(value, 3), 2 };
        label_t copy = hdr.label;
        copy.value = copy.value |+| 3;
        hdr.labels[1] = copy;
        bit<16> mixed;
        hash(mixed, HashAlgorithm.crc16, 16w0, { m.kept }, 16w8);
        if (mixed == 1) { t.apply(); } else { t.apply(); m.kept = 9; }
        s.egress_spec = m.kept == 7 ? 9w2 : 9w1;
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t hdr, inout metadata_t m) { apply {} }
control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.label); packet.emit(hdr.labels); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
FRAME = bytes(14) + bytes([1, 9, 2, 5, 4, 6])
FIELDS = {
    "P.seen", "I.value_of_first", "I.copy.value", "I.mixed", "m.kept", "m.pair[0]", "m.pair[1]",
    "standard_metadata.egress_spec",
}  # fmt: skip
"""Some fields and variables whose changes are explained."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    file = tmp_path_factory.mktemp("source") / "named.p4"
    file.write_text(SOURCE)
    return load_program(bmv2_json_text(compile_file(file, base=file.parent)))


def explained(program: Program, frame: bytes) -> list[str]:
    recorder = Recorder(program)
    InterpretedPipeline(program, 1, recorder).process(1, frame, 0, 0)
    return [click.unstyle(line) for line in draw(make_tree(recorder.take(), show_all=True))]


def test_all_steps_have_the_names_and_the_lines_of_the_source(program: Program) -> None:
    lines = explained(program, FRAME)
    words = set(re.findall(r"[A-Za-z_]\w*", SOURCE)) | {"standard_metadata"}
    assigned = {m[1] for line in lines if (m := re.search(r"([\w.\[\]]+) = 0x", line))}
    assert assigned >= FIELDS
    assert {each for name in assigned for each in re.findall(r"[A-Za-z_]\w*", name)} <= words
    assert not [line for line in lines if "$" in line]
    statements = SOURCE.splitlines()
    for line in lines:
        if (m := re.search(r"(I\.\w+|m\.kept) = .*named\.p4:(\d+)", line)) is not None:
            assert m[1].split(".")[1] in statements[int(m[2]) - 1], line


def test_a_table_of_statements_is_no_step(program: Program) -> None:
    tables = [line for line in explained(program, FRAME) if "table " in line]
    assert [re.search(r"table (\S+) \[(.*?) 0x", line) is not None for line in tables] == [True]
    assert "table I.t [next value 0x6] miss → I.set(kept 0x7)" in tables[0]


def test_a_divided_state_is_explained_as_one(program: Program) -> None:
    assert any("$" in state.name for state in program.parser)
    lines = explained(program, FRAME)
    assert [line.split("state ")[1] for line in lines if "state " in line] == [
        "start → by 0x2 more", "more → accept",
    ]  # fmt: skip


def test_coverage_lists_statements_by_their_lines(program: Program) -> None:
    places = Coverage(program).places
    assert ("parser state", "start") in places and ("action", "I.set of I.t") in places
    assert ("action", "statements at named.p4:36") in places
    assert len(places) == len(set(places))
    assert not [name for _, name in places if "$" in name]


def test_a_skipped_header_has_the_name_of_its_argument(program: Program) -> None:
    assert any("─ _  bytes 14 to 15: kind 0x1, value 0x9" in line for line in explained(program, FRAME))


@pytest.mark.parametrize("name", ["table", "action", "parser", "field", "header", "extern"])
def test_a_filter_lists_names_of_the_source(program: Program, name: str) -> None:
    with pytest.raises(SwitchError) as caught:
        parse_filter(f"{name}=nowhere").check(program)
    assert "$" not in str(caught.value)


def test_a_source_name_ends_before_a_dollar_sign() -> None:
    taken = {"x"}
    assert [unique_name("x", taken), unique_name("x", taken)] == ["x$1", "x$2"]
    assert [source_name(each) for each in ("x", "x$1", "$tmp$1")] == ["x", "x", ""]
    assert source_field_name("$scalars", "m.kept$2") == "m.kept"
    assert source_field_name("ipv4", "ttl") == "ipv4.ttl"
    assert [source_field_name("I.v", "$value"), source_field_name("$tmp", "a")] == ["I.v", ""]
