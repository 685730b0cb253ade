"""Statements that nothing needs are left out of a compiled program, and those that something needs stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.interpreter import InterpretedPipeline
from switch_harness.small_programs import compile_small, primitives, written_json

TABLE = "action a() { %s } table t { key = { %s: exact; } actions = { a; } default_action = a(); }"

SHORTER = {
    "a variable that nothing reads": ("bit<8> x = hdr.first.kind;", 0),
    "a variable that only itself reads": ("bit<8> x = 1; x = x + 1; x = x + hdr.first.kind;", 0),
    "metadata that is overwritten": ("meta.kept = 1; meta.kept = 2;", 1),
    "a field that is overwritten in both branches": (
        "hdr.first.kind = 1; if (meta.is_set) { hdr.first.kind = 2; } else { hdr.first.kind = 3; }", 2
    ),
    "a constant that a condition reads": (
        "bool b = true; if (b) { hdr.first.kind = 1; } else { hdr.first.kind = 2; }", 1
    ),
    "a variable that is read once": ("bit<8> x = hdr.first.count + 1; hdr.first.kind = x;", 1),
    "a header of the control that is invalid": ("first_t h; if (h.isValid()) { hdr.first.kind = 2; }", 0),
    "a header of the control that is not read": ("first_t h; h.setValid(); h.kind = 1; h = hdr.first;", 0),
    "the fields of a header that becomes invalid": ("hdr.first.kind = 1; hdr.first.setInvalid();", 1),
    "the value before mark_to_drop": ("standard.egress_spec = 1; mark_to_drop(standard);", 1),
    "conditions around nothing": ("bit<8> x; if (meta.is_set) { x = 1; } else { x = 2; }", 0),
    "a register that is read in vain": ("bit<8> x; r.read(x, 0); x = 1;", 0),
    "an element that stays what it is": (
        "bit<8> i = meta.position; hdr.items[i].value = hdr.items[i].value;", 0
    ),
    "a known position": ("bit<8> i = 1; hdr.items[i].value = 3;", 1),
    "members of a union that nothing reads": ("either_t u; u.first.setValid(); u.second = hdr.second;", 0),
    "statements after what a constant decides": (
        "bit<8> x = 2; if (x == 3) { hdr.first.kind = 1; exit; } hdr.first.count = 1;", 1
    ),
}  # fmt: skip

NEEDED = {
    "the metadata at the end of ingress": ("meta.kept = 1;", 1),
    "what a table's key reads": ("meta.kept = 1; t.apply(); meta.kept = 2;", 3),
    "what a branch reads": (
        "meta.position = 1; if (meta.is_set) { hdr.first.kind = meta.position; } meta.position = 2;", 3
    ),
    "an element at a computed index": (
        "hdr.items[0].value = 1; meta.kept = hdr.items[meta.position].value; hdr.items[0].value = 2;", 3
    ),
    "the position of an element": (
        "bit<8> i = meta.position; meta.position = 0; hdr.items[i].value = 1;", 3
    ),
    "values of a hash": (
        "meta.small = 1; hash(meta.kept, HashAlgorithm.crc16, 16w0, { meta.small }, 32w9); meta.small = 2;", 3
    ),
    "values of a digest": ("second_t d = { 1, true, 2 }; digest<second_t>(1, d);", 5),
    "a field before a swap": ("bit<8> x = hdr.first.kind; hdr.first.kind = hdr.first.count;"
                              " hdr.first.count = x;", 3),
    "a member of a union that another one replaces": (
        "either_t u; u.first.setValid(); u.second.setValid(); if (u.first.isValid()) { hdr.first.kind = 1; }",
        3,
    ),
    "members of a union": ("hdr.one.first.setValid(); hdr.one.second.setValid();", 2),
    "a copy of a stack": ("second_t[3] s = hdr.items; s[0].value = 1; hdr.others = s;", 3),
    "a value that stays if a table with an action profile misses": ("meta.kept = 1; w.apply();", 2),
    "writes of a register": ("bit<8> x = 1; r.write(0, x);", 1),
    "a header's validity for a key": ("hdr.first.setInvalid(); v.apply(); hdr.first.setValid();", 3),
    "a variable that both sides of an operator read": (
        "bit<8> x = hdr.first.kind + 1; hdr.first.kind = x * x * x;", 2
    ),
    "a loop that ends": (
        "bit<8> x = 0; for (bit<8> i = 0; i < hdr.first.kind; i = i + 1) { x = x + i; } hdr.first.count = x;",
        7,
    ),
}  # fmt: skip
LOCALS = (
    "register<bit<8>>(1) r;"
    + TABLE % ("hdr.second.value = hdr.second.value + 1;", "meta.kept")
    + "action b() { hdr.second.is_on = true; }"
    "action c() { meta.kept = 3; } table w { key = { hdr.first.kind: exact; } actions = { c; }"
    " default_action = c(); implementation = action_profile(4); }"
    "table v { key = { hdr.first.kind: exact; } actions = { b; } default_action = b(); }"
)


@pytest.mark.parametrize("kind", SHORTER)
def test_statements_without_effect_are_left_out(kind: str, tmp_path: Path) -> None:
    body, expected = SHORTER[kind]
    document = written_json(compile_small(tmp_path, ingress_locals=LOCALS, ingress=body))
    assert len(primitives(document)) == expected


@pytest.mark.parametrize("kind", NEEDED)
def test_statements_with_effect_stay(kind: str, tmp_path: Path) -> None:
    body, expected = NEEDED[kind]
    in_action = "for" in body
    locals_ = LOCALS + (f"action run() {{ {body} }}" if in_action else "")
    document = written_json(
        compile_small(tmp_path, ingress_locals=locals_, ingress="run();" if in_action else body)
    )
    assert len(primitives(document)) == expected


def test_a_table_in_a_branch_never_taken_stays_for_the_control_plane(tmp_path: Path) -> None:
    ingress = "bool b = false; if (b) { t.apply(); }"
    program = compile_small(tmp_path, ingress_locals=LOCALS, ingress=ingress).program
    assert "I.t" in program.tables


def test_a_statement_needed_by_one_of_two_tables_stays_in_the_shared_action(tmp_path: Path) -> None:
    locals_ = """
        bit<8> x = 0;
        action a() { x = hdr.first.kind; }
        table one { actions = { a; } default_action = a(); }
        table other { key = { hdr.first.count: exact; } actions = { a; } default_action = a(); }
    """
    ingress = "one.apply(); x = 1; other.apply(); hdr.first.count = x;"
    program = compile_small(tmp_path, ingress_locals=locals_, ingress=ingress).program
    [out] = InterpretedPipeline(program).process(1, bytes.fromhex("0702030405060708"), 0, 0)
    assert out.frame[:2].hex() == "0707"


def test_an_exit_keeps_values_for_the_end_of_the_control(tmp_path: Path) -> None:
    locals_ = LOCALS + "action leave() { meta.kept = 1; if (hdr.first.kind == 7) { exit; } }"
    update = "hdr.first.count = (bit<8>) meta.kept;"
    program = compile_small(
        tmp_path, ingress_locals=locals_, ingress="leave(); v.apply(); meta.kept = 2;", egress=update
    ).program
    sent = [
        InterpretedPipeline(program).process(1, bytes([kind, 0, 0, 0, 0, 0, 0, 0]), 0, 0)[0].frame[1]
        for kind in (7, 8)
    ]
    assert sent == [1, 2]


@pytest.mark.parametrize("is_action", [False, True])
def test_a_variable_that_a_branch_assigns_to_has_both_values_after_the_branch(
    is_action: bool, tmp_path: Path
) -> None:
    body = "bit<8> x = 1; if (hdr.first.kind == 7) { x = 2; } hdr.first.count = x;"
    program = compile_small(
        tmp_path,
        ingress_locals=f"action all() {{ {body} }}" if is_action else "",
        ingress="all();" if is_action else body,
    ).program
    sent = [
        InterpretedPipeline(program).process(1, bytes([kind, 0, 0, 0, 0, 0, 0, 0]), 0, 0)[0].frame[1]
        for kind in (7, 8)
    ]
    assert sent == [2, 1]


@pytest.mark.parametrize(
    "read", ["x == 0x34 ? 8w1 : 8w2", "(bit<8>) (x > 0x80 ? 4w2 : 4w1)", "x >> 2 == 0xd ? 8w1 : 8w2"]
)
def test_a_variable_has_no_more_bits_than_its_type(read: str, tmp_path: Path) -> None:
    ingress = f"bit<8> x = (bit<8>) hdr.first.value; hdr.first.count = {read};"
    program = compile_small(tmp_path, ingress=ingress).program
    [out] = InterpretedPipeline(program).process(1, bytes.fromhex("0000001234000000"), 0, 0)
    assert out.frame[1] == 1


@pytest.mark.parametrize("kind, count", [(1, 2), (2, 2), (2, 1)])
@pytest.mark.parametrize("order", ["<", "<=", ">", ">=", "==", "!="])
def test_a_negated_comparison_holds_where_the_comparison_does_not(
    order: str, kind: int, count: int, tmp_path: Path
) -> None:
    ingress = f"if (!(hdr.first.kind {order} hdr.first.count)) {{ hdr.first.kind = 9; }}"
    program = compile_small(tmp_path, ingress=ingress).program
    [out] = InterpretedPipeline(program).process(1, bytes([kind, count]) + bytes(6), 0, 0)
    assert (out.frame[0] == 9) == (not eval(f"{kind} {order} {count}"))


def test_the_index_of_a_register_has_no_more_bits_than_its_type(tmp_path: Path) -> None:
    program = compile_small(
        tmp_path, ingress_locals="register<bit<8>>(64) cells;",
        ingress="bit<5> i = (bit<5>) hdr.first.value; cells.write((bit<32>) i, 7);",
    ).program  # fmt: skip
    pipeline = InterpretedPipeline(program)
    pipeline.process(1, bytes.fromhex("0000000023000000"), 0, 0)
    assert pipeline.cells.read_register("I.cells", 0, 4) == [0, 0, 0, 7]


@pytest.mark.parametrize(
    ("reads", "count"),
    [("d.read(meta.position);", 0), ("d.read(meta.position); d.read(hdr.first.kind);", 2),
     ("meta.position = 1; hdr.first.kind = meta.position; d.read(meta.position);", 3)],
)  # fmt: skip
def test_a_direct_meter_stores_the_colour_where_all_actions_copy_the_colour_to(
    reads: str, count: int, tmp_path: Path
) -> None:
    locals_ = f"""
        direct_meter<bit<8>>(MeterType.packets) d;
        action a() {{ {reads} }}
        table metered {{
            key = {{ hdr.first.kind: exact; }} actions = {{ a; @defaultonly NoAction; }} meters = d;
        }}
    """
    document = written_json(compile_small(tmp_path, ingress_locals=locals_, ingress="metered.apply();"))
    assert len(primitives(document)) == count
    [meter] = document["meter_arrays"]
    assert (meter["result_target"][1] == "meta.position") == (count == 0)


def test_hidden_tables_in_a_row_are_one(tmp_path: Path) -> None:
    declarations = "bit<8> next(in bit<8> x) { if (x > 1) { return x; } return x + 1; }"
    program = compile_small(
        tmp_path, declarations=declarations,
        ingress="hdr.first.kind = 8w3; hdr.first.count = next(8w3); hdr.first.value = 1;",
    ).program  # fmt: skip
    assert [len(action.body) for action in program.actions] == [3]
