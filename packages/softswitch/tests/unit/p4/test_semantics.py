"""What compiled P4_16 programs do where the order of evaluation and of copies matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.p4.compiler import compile_file
from softswitch.pipeline import LogRecord

_PROGRAM = """
#include <v1model.p4>
header four_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; }}
header one_t {{ bit<8> x; }}
struct pair_t {{ bit<8> p; bit<8> q; }}
struct pairs_t {{ pair_t left; pair_t right; }}
struct headers_t {{ four_t f; one_t o; one_t[2] s; }}
struct meta_t {{ bit<8> m; }}
{declarations}
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    state start {{ packet.extract(hdr.f); transition accept; }}
}}
control None(inout headers_t hdr, inout meta_t meta) {{ apply {{ }} }}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{
    {locals}
    apply {{ {body} }}
}}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {{ apply {{ }} }}
control Deparse(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), None(), In(), Out(), None(), Deparse()) main;
"""


def _sent(folder: Path, frame: str, body: str, locals: str = "", declarations: str = "") -> str:
    """Return the frame, in hexadecimal digits, that a program with this ingress sends."""
    file = folder / "program.p4"
    file.write_text(_PROGRAM.format(body=body, locals=locals, declarations=declarations))
    [output] = InterpretedPipeline(compile_file(file).program).process(1, bytes.fromhex(frame), 0, 0)
    return output.frame.hex()


def test_a_header_initialised_from_its_own_validity_reads_the_old_one(tmp_path: Path) -> None:
    assert _sent(tmp_path, "01020304", "hdr.o = { hdr.o.isValid() ? 8w1 : 8w9 };") == "0102030409"


def test_the_index_of_an_initialised_element_is_read_before_the_element_becomes_valid(tmp_path: Path) -> None:
    body = "hdr.s[hdr.s[1].isValid() ? 32w0 : 32w1] = { 8w7 };"
    assert _sent(tmp_path, "01020304", body) == "0102030407"


@pytest.mark.parametrize(("first", "sent"), [("07", "07000000"), ("08", "08010000")])
def test_a_return_in_a_branch_leaves_the_rest_of_an_action_out(first: str, sent: str, tmp_path: Path) -> None:
    locals_ = """
        action one() { if (hdr.f.a == 7) { return; } hdr.f.b = 1; }
        table t { actions = { one; } default_action = one(); }
    """
    assert _sent(tmp_path, f"{first}000000", "t.apply();", locals_) == sent


def test_structs_that_swap_places_keep_their_values(tmp_path: Path) -> None:
    body = """
        pairs_t v = { { 1, 2 }, { 3, 4 } };
        v = { v.right, v.left };
        hdr.f = { v.left.p, v.left.q, v.right.p, v.right.q };
    """
    assert _sent(tmp_path, "00000000", body) == "03040102"


@pytest.mark.parametrize("collection", ["{ hdr.f.a, hdr.f.b }", "(list<bit<8>>){ hdr.f.a, hdr.f.b }"])
def test_the_list_of_a_loop_is_evaluated_before_its_first_repetition(tmp_path: Path, collection: str) -> None:
    body = f"for (bit<8> i in {collection}) {{ hdr.f.b = 9; hdr.f.c = hdr.f.c + i; }}"
    assert _sent(tmp_path, "01020004", body) == "01090304"


def test_arguments_are_evaluated_from_left_to_right(tmp_path: Path) -> None:
    declarations = """
        bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
        bit<8> join(in bit<8> x, in bit<8> y) { return x[3:0] ++ y[3:0]; }
        void both(inout bit<8> x, in bit<8> y) { x = x + y; }
    """
    body = "hdr.f.b = join(hdr.f.a, bump(hdr.f.a)); both(hdr.f.c, bump(hdr.f.c));"
    # `both` gets the old value of its first argument, and copies the sum over what `bump` has stored.
    assert _sent(tmp_path, "01000400", body, declarations=declarations) == "02120900"


def test_named_arguments_are_evaluated_in_the_written_order(tmp_path: Path) -> None:
    declarations = """
        bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
        bit<8> join(in bit<8> x, in bit<8> y) { return x[3:0] ++ y[3:0]; }
    """
    body = "hdr.f.b = join(y = bump(hdr.f.a), x = bump(hdr.f.a));"
    assert _sent(tmp_path, "01000000", body, declarations=declarations) == "03320000"


def test_a_struct_in_a_list_keeps_its_value_while_later_elements_are_evaluated(tmp_path: Path) -> None:
    declarations = "bit<8> bump(inout pair_t x) { x.p = x.p + 1; return x.p; }"
    body = """
        pair_t v = { 1, 2 };
        tuple<pair_t, bit<8>> t = { v, bump(v) };
        hdr.f.a = t[0].p;
        hdr.f.b = t[1];
    """
    assert _sent(tmp_path, "00000000", body, declarations=declarations) == "01020000"


def test_a_result_goes_to_the_element_that_the_index_meant_at_the_call(tmp_path: Path) -> None:
    locals = "bit<8> i; action change(inout bit<8> x) { x = 7; i = 1; }"
    body = "hdr.s[0] = { 0 }; hdr.s[1] = { 1 }; i = 0; change(hdr.s[i].x);"
    assert _sent(tmp_path, "01020304", body, locals) == "010203040701"


def test_exit_copies_results_to_bits_of_the_callers_variables(tmp_path: Path) -> None:
    declarations = "control Leave(inout bit<4> x) { apply { x = 7; exit; } }"
    body = "hdr.f.b = 0x55; leave.apply(hdr.f.b[7:4]); hdr.f.c = 9;"
    assert _sent(tmp_path, "01020304", body, "Leave() leave;", declarations) == "01750304"


def test_exit_copies_results_from_left_to_right(tmp_path: Path) -> None:
    declarations = "control Leave(inout bit<8> x, inout bit<8> y) { apply { x = 7; y = 8; exit; } }"
    assert (
        _sent(tmp_path, "01020304", "leave.apply(hdr.f.a, hdr.f.a);", "Leave() leave;", declarations)
        == "08020304"
    )


def test_a_compound_assignment_reads_its_target_once_and_before_the_value(tmp_path: Path) -> None:
    declarations = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }"
    body = "hdr.s[0] = { 0 }; hdr.s[1] = { 1 }; hdr.s[bump(hdr.f.a)].x += 5; hdr.f.b += bump(hdr.f.b);"
    assert _sent(tmp_path, "00020304", body, declarations=declarations) == "010503040006"


def test_exit_in_the_action_of_a_table_copies_results_of_the_controls_around(tmp_path: Path) -> None:
    declarations = """
        control Leave(inout bit<4> x) {
            action leave() { x = 7; exit; }
            table t { actions = { leave; } default_action = leave(); }
            apply { t.apply(); }
        }
    """
    body = "hdr.f.b = 0x55; leave.apply(hdr.f.b[7:4]); hdr.f.c = 9;"
    assert _sent(tmp_path, "01020304", body, "Leave() leave;", declarations) == "01750304"


@pytest.mark.parametrize("call", ["set(v);", "t.apply();"])
def test_an_action_sees_the_old_value_of_its_result_in_the_variable_around(tmp_path: Path, call: str) -> None:
    locals = """
        bit<8> v;
        action set(out bit<8> x) { x = 1; hdr.f.b = v; }
        table t { actions = { set(v); } default_action = set(v); }
    """
    assert _sent(tmp_path, "05020304", f"v = hdr.f.a; {call} hdr.f.a = v;", locals) == "01050304"


def test_a_key_has_the_width_of_its_cast(tmp_path: Path) -> None:
    locals = """
        action found(bit<8> x) { hdr.f.b = x; }
        table t {
            key = { (bit<8>)hdr.f.a[2:0]: ternary @name("first"); (bit<8>)narrow: ternary @name("second"); }
            actions = { found; }
            const entries = { (_, 0x10 &&& 0x10): found(1); (0x10 &&& 0x10, _): found(2); }
            default_action = found(3);
        }
    """
    assert _sent(tmp_path, "17020304", "t.apply();", "bit<3> narrow = 7;" + locals) == "17030304"


def test_a_lookahead_needs_all_of_its_header_in_the_packet(tmp_path: Path) -> None:
    file = tmp_path / "program.p4"
    states = """
        transition select(packet.lookahead<four_t>().a) { 1: skip; default: accept; } }
        state skip { packet.advance(8); transition accept; }
    """
    text = _PROGRAM.format(declarations="", locals="", body="")
    file.write_text(text.replace("packet.extract(hdr.f); transition accept; }", states))
    pipeline = InterpretedPipeline(compile_file(file).program)
    sent = [
        pipeline.process(1, bytes.fromhex(frame), 0, 0)[0].frame.hex() for frame in ("01020304", "010203")
    ]
    assert sent == ["020304", "010203"]


@pytest.mark.parametrize("items", [0, 1])
def test_the_last_element_of_an_empty_stack_is_a_parser_error(tmp_path: Path, items: int) -> None:
    states = """
        state start { packet.extract(hdr.f); transition select(hdr.f.a) { 0: check; default: one; } }
        state one { packet.extract(hdr.s.next); transition check; }
        state check { meta.m = 1; transition select(hdr.s.last.x) { 7: accept; default: reject; } }
    """
    source = _PROGRAM.format(
        body="hdr.f.b = meta.m; hdr.f.c = std.parser_error == error.StackOutOfBounds ? 8w1 : 0;",
        locals="",
        declarations="",
    )
    file = tmp_path / "program.p4"
    file.write_text(source.replace("state start { packet.extract(hdr.f); transition accept; }", states))
    [output] = InterpretedPipeline(compile_file(file).program).process(1, bytes((items, 0, 0, 0, 7)), 0, 0)
    assert output.frame.hex() == ("0101000007" if items else "0001010007")


def test_a_variable_of_a_parser_is_initialised_once_also_if_start_is_entered_again(tmp_path: Path) -> None:
    states = """
        bit<8> rest = 2;
        state start { packet.extract(hdr.s.next); rest = rest - 1; transition next; }
        state next { transition select(rest) { 0: f; default: start; } }
        state f { packet.extract(hdr.f); transition accept; }
    """
    source = _PROGRAM.format(body="hdr.f.a = hdr.s[1].x;", locals="", declarations="")
    file = tmp_path / "program.p4"
    file.write_text(source.replace("state start { packet.extract(hdr.f); transition accept; }", states))
    [output] = InterpretedPipeline(compile_file(file).program).process(1, bytes((1, 2, 3, 4, 5, 6)), 0, 0)
    assert output.frame.hex() == "020405060102"


def test_labels_that_share_a_body_run_the_body(tmp_path: Path) -> None:
    body = """
        switch (hdr.f.a) { 1: 2: { hdr.f.b = 10; } 3: { hdr.f.b = 11; } 4: default: { hdr.f.b = 12; } }
    """
    sent = [_sent(tmp_path, f"0{first}000000", body) for first in range(1, 6)]
    assert [frame[2:4] for frame in sent] == ["0a", "0a", "0b", "0c", "0c"]


def test_actions_that_share_a_body_may_apply_a_table_in_the_body(tmp_path: Path) -> None:
    locals = """
        action first() { hdr.f.b = 1; }
        action second() { hdr.f.b = 2; }
        action third() { hdr.f.c = 3; }
        table t {
            key = { hdr.f.a: exact; }
            actions = { first; second; NoAction; }
            const entries = { 1: first(); 2: second(); }
            default_action = NoAction();
        }
        table u { actions = { third; } default_action = third(); }
    """
    body = "switch (t.apply().action_run) { first: second: { bit<8> x = hdr.f.b; u.apply(); hdr.f.d = x; } }"
    sent = [_sent(tmp_path, f"0{first}000000", body, locals) for first in range(1, 4)]
    assert sent == ["01010301", "02020302", "03000000"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(bit<8>)(-8s100 |-| 8s100)", "80"),
        ("(bit<8>)(8s100 |+| 8s100)", "7f"),
        ("8w200 |+| 8w100", "ff"),
        ("8w20 |-| 8w100", "00"),
        ("(bit<8>)((int<8>)8w0x90 >> 4)", "f9"),
        ("8w0xAB[7:4] ++ 4w1", "a1"),
        ("code_t.two", "02"),
        ("(bit<8>)(300 - 2 * 3)", "26"),
        ("(1 << 9) / 7 % 50 == 23 ? 8w1 : 8w2", "01"),
    ],
)
def test_constants_have_the_values_of_their_types(tmp_path: Path, expression: str, expected: str) -> None:
    declarations = f"enum bit<8> code_t {{ one = 1, two = 2 }} const bit<8> K = {expression};"
    body = "hdr.f.b = K; hdr.f.c = code_t.one;"
    assert _sent(tmp_path, "00000000", body, declarations=declarations) == f"00{expected}0100"


def test_an_argument_that_is_also_a_result_keeps_its_value_within_the_call(tmp_path: Path) -> None:
    declarations = "void add(in bit<8> x, inout bit<8> y) { y = y + 1; y = y + x; }"
    assert _sent(tmp_path, "05020304", "add(hdr.f.a, hdr.f.a);", declarations=declarations) == "0b020304"


def test_an_action_keeps_the_value_of_an_overwritten_argument(tmp_path: Path) -> None:
    locals = "bit<8> v; action set(in bit<8> x) { v = 1; hdr.f.b = x; }"
    assert _sent(tmp_path, "05020304", "v = hdr.f.a; set(v); hdr.f.a = v;", locals) == "01050304"


def test_a_header_that_is_a_result_is_invalid_at_first(tmp_path: Path) -> None:
    declarations = "void forget(out one_t x, inout bit<8> y) { if (!x.isValid()) { y = 9; } }"
    body = "hdr.o = { 1 }; forget(hdr.o, hdr.f.a);"
    assert _sent(tmp_path, "05020304", body, declarations=declarations) == "09020304"


@pytest.mark.parametrize(("condition", "expected"), [("&&", "01020904"), ("||", "01030404")])
def test_an_operand_is_not_evaluated_if_the_one_before_decides(
    tmp_path: Path, condition: str, expected: str
) -> None:
    declarations = "bit<8> bump(inout bit<8> x) { x = x + 1; return x; }"
    body = f"if (hdr.f.a == 2 {condition} bump(hdr.f.b) == 3) {{ hdr.f.c = 4; }} else {{ hdr.f.c = 9; }}"
    assert _sent(tmp_path, "01020304", body, declarations=declarations) == expected


def test_a_cast_to_a_signed_type_takes_the_sign_from_the_first_bit(tmp_path: Path) -> None:
    body = "hdr.f.b = (bit<8>)((int<8>)hdr.f.a >> 1); if ((int<8>)hdr.f.a < 0) { hdr.f.c = 9; }"
    assert _sent(tmp_path, "f0000004", body) == "f0f80904"


def test_statements_after_an_action_run_whether_or_not_the_action_returned_early(tmp_path: Path) -> None:
    locals = "action early() { if (hdr.f.a == 1) { hdr.f.b = 7; return; } }"
    body = "early(); hdr.f.c = 8; hdr.f.d = 9;"
    assert _sent(tmp_path, "01000000", body, locals) == "01070809"
    assert _sent(tmp_path, "02000000", body, locals) == "02000809"


def test_a_switch_runs_the_body_of_one_label_only(tmp_path: Path) -> None:
    locals = """
        action first() { }
        action second() { }
        table t {
            key = { hdr.f.a: exact; }
            actions = { first; second; }
            const entries = { 1: first(); 2: second(); }
            default_action = second();
        }
    """
    body = "switch (t.apply().action_run) { first: { hdr.f.b = 7; } default: { hdr.f.c = 8; } }"
    assert _sent(tmp_path, "01000000", body, locals) == "01070000"
    assert _sent(tmp_path, "02000000", body, locals) == "02000800"


def test_break_ends_a_loop_and_continue_one_repetition(tmp_path: Path) -> None:
    body = """
        for (bit<8> i = 0; i < 5; i += 1) {
            if (i == hdr.f.a) { continue; }
            if (i == hdr.f.b) { break; }
            hdr.f.c = hdr.f.c + 1;
            hdr.f.d = i;
        }
    """
    assert _sent(tmp_path, "01030000", body) == "01030202"


def test_exit_from_egress_leads_to_the_fields_of_a_checksum(tmp_path: Path) -> None:
    text = _PROGRAM.format(declarations="", locals="", body="")
    text = text.replace("one_t { bit<8> x; }", "one_t { bit<16> x; }")
    text = text.replace(
        "inout standard_metadata_t std) { apply { } }", "inout standard_metadata_t std) { apply { exit; } }"
    )
    call = "update_checksum(true, { hdr.f.a + 8w1, hdr.f.b }, hdr.o.x, HashAlgorithm.csum16);"
    sums = f"control Sums(inout headers_t hdr, inout meta_t meta) {{ apply {{ {call} }} }}\nV1Switch"
    text = text.replace("V1Switch", sums).replace("Out(), None()", "Out(), Sums()")
    file = tmp_path / "program.p4"
    file.write_text(text.replace("packet.extract(hdr.f);", "packet.extract(hdr.f); packet.extract(hdr.o);"))
    [output] = InterpretedPipeline(compile_file(file).program).process(1, bytes.fromhex("010203040000"), 0, 0)
    assert output.frame.hex() == "01020304fdfd"


def test_an_entry_gives_each_parameter_its_value(tmp_path: Path) -> None:
    locals = """
        action set(inout bit<8> x, bit<8> first, bit<8> second) { x = first; hdr.f.d = second; }
        table t { actions = { set(hdr.f.c); } default_action = set(hdr.f.c, 7, 8); }
    """
    assert _sent(tmp_path, "01020304", "t.apply();", locals) == "01020708"


def test_two_invalid_headers_are_equal(tmp_path: Path) -> None:
    body = "if (hdr.o == hdr.s[0]) { hdr.f.b = 1; } hdr.o.setValid(); if (hdr.o != hdr.s[0]) { hdr.f.c = 1; }"
    assert _sent(tmp_path, "00000000", body) == "0001010000"


@pytest.mark.parametrize("number", ["3", "KEPT", "List.KEPT", "KEPT + 8w0"])
def test_a_list_of_preserved_fields_may_have_the_name_of_a_constant(tmp_path: Path, number: str) -> None:
    declared = "const bit<8> KEPT = 3; enum bit<8> List {{ KEPT = 3 }}"
    fields = f"{declared} struct meta_t {{{{ @field_list(1, {number}) bit<8> m; bit<8> n; }}}}"
    program = _PROGRAM.replace("struct meta_t {{ bit<8> m; }}", fields)
    body = """
        if (std.instance_type == 0) { meta.m = 7; meta.n = 8; resubmit_preserving_field_list(KEPT); }
        else { hdr.f.a = meta.m; hdr.f.b = meta.n; }
    """
    file = tmp_path / "program.p4"
    file.write_text(program.format(body=body, locals="", declarations=""))
    [output] = InterpretedPipeline(compile_file(file).program).process(1, bytes.fromhex("01020304"), 0, 0)
    assert output.frame.hex() == "07000304"


def test_a_message_names_the_fields_of_a_header(tmp_path: Path) -> None:
    body = 'pair_t v = { 8w5, 8w6 }; log_msg("{}: {}, {}", { hdr.f.a, hdr.f, v });'
    file = tmp_path / "program.p4"
    file.write_text(_PROGRAM.format(body=body, locals="", declarations=""))
    pipeline = InterpretedPipeline(compile_file(file).program)
    pipeline.process(1, bytes.fromhex("01020304"), 0, 0)
    assert pipeline.take_notices() == [LogRecord("1: (a:1,b:2,c:3,d:4), (p:5,q:6)")]
