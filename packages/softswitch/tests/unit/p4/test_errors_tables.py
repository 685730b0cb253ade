"""Errors in tables: keys, actions, entries, properties; and in the sets of `select`."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.p4.diagnostics import CompileError
from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused, diagnostics_of
from switch_harness.small_programs import compile_small

REFUSED = (
    Refused("control c() {\n table t { key = { } } apply {} }", 2, r"`actions`.*`t`"),
    Refused(
        "control c() { table t { actions = { NoAction; }\n actions = { } } apply {} }",
        2,
        r"`actions`.*twice",
    ),
    Refused(
        "control c() { table t { key = { }\n key = { } actions = { NoAction; } } apply {} }",
        2,
        r"`key`.*twice",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a; NoAction; } const entries = { 1: a(1); }\n key = { x: exact; } } apply {} }",
        2,
        r"key before the entries",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} \ntable "
        "t { actions = { a; NoAction; } const entries = { 1: a(1); } } apply {} }",
        2,
        r"key.*`t`",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a;\n a; NoAction; } } apply {} }",
        2,
        r"`a` .*twice",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a; NoAction; }\n size = true; } apply {} }",
        2,
        r"size.*bool",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a; }\n default_action = a(x); } apply {} }",
        2,
        r"known",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { b(x); }\n default_action = b(x[7:0] + 1, 2); } apply {} }",
        2,
        r"`b`.*:1:|variable",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { @tableonly a; }\n default_action = a(1); } apply {} }",
        2,
        r"`@tableonly`.*`a`",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: exact; } actions = { @defaultonly a; NoAction; } const entries = {\n 1: a(1); } "
        "} apply {} }",
        2,
        r"`@defaultonly`.*`a`",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: exact; } actions = { a; NoAction; } const entries = { 1: a(1);\n 1: a(2); } } "
        "apply {} }",
        2,
        r"\(1\) twice",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: lpm; } actions = { a; NoAction; } const entries = {\n 1 &&& 5: a(1); } } apply "
        "{} }",
        2,
        r"8 bits.*lpm.*0x5",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: optional; } actions = { a; NoAction; } const entries = {\n 1 &&& 5: a(1); } } "
        "apply {} }",
        2,
        r"optional.*mask",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: range; } actions = { a; NoAction; } const entries = {\n 1 &&& 5: a(1); } } apply "
        "{} }",
        2,
        r"range.*mask",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: ternary; } actions = { a; NoAction; } const entries = {\n 1 .. 5: a(1); } } "
        "apply {} }",
        2,
        r"ternary.*range",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: exact; } actions = { a; NoAction; } const entries = {\n x: a(1); } } apply {} }",
        2,
        r"known",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: exact; } actions = { a; NoAction; } const entries = {\n (1, 2): a(1); } } apply "
        "{} }",
        2,
        r"1 values.*2",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = {\n x: exact; } actions = { a; NoAction; } entries = { priority = 1: 1: a(1); } } "
        "apply {} }",
        2,
        r"priorities.*exact",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x: ternary; } actions = { a; NoAction; } entries = {\n 1: a(1); priority = 2: 2: "
        "a(1); } } apply {} }",
        2,
        r"priority.*first",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = {\n x + 1: exact; } actions = { a; NoAction; } } apply {} }",
        2,
        r"`@name",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a; NoAction; }\n largest_priority_wins = 1; } apply {} }",
        2,
        r"`largest_priority_wins`",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { a; NoAction; }\n priority_delta = 0; } apply {} }",
        2,
        r"`priority_delta`.*0",
    ),
    Refused(
        "control c(inout bit<8> x) { table t { actions = { NoAction; }\n priority_delta = x; } apply {} }",
        2,
        r"`priority_delta`, got something else",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { key = { x:\n missing; } actions = { NoAction; } } apply {} }",
        1,
        r"exact.*`missing`",
    ),
    Refused(
        "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
        "t { actions = { NoAction; }\n default_action = a(1); } apply {} }",
        2,
        r"\(NoAction\).*`a`",
    ),
    Refused(
        'control c() { action a() {}\n@name("x") table t { actions = { NoAction; } } @name("x") table u '
        "{ actions = { NoAction; } } apply {} }",
        2,
        r"table.*`c\.x`",
    ),
    Refused(
        'control c() { @name(".x") action a() {}\n@name(".x") action b() {} apply {} }',
        2,
        r"action.*`x`.*:1:",
    ),
    Refused(
        "struct S { bit<8> a; } parser p(in S s) { state start {\n transition select(s) { default: "
        "accept; } } }",
        2,
        r"`select`.*S",
    ),
    Refused(
        "header V { varbit<8> v; } parser p(in V h) { state start {\n transition select(h.v) { default: "
        "accept; } } }",
        2,
        r"`select`.*varbit<8>",
    ),
    Refused(
        "parser p(in bit<8> x) { state start { transition select(x) {\n x &&& 3: accept; } } }",
        2,
        r"known",
    ),
    Refused(
        "parser p(in bit<8> x) { state start { transition select(x) {\n 1: missing; } } }",
        2,
        r"`missing`",
    ),
    Refused(
        "bit<8> f() { return 1; } parser p(in bit<8> x) { state start { transition select(x) {\n f(): "
        "accept; } } }",
        2,
        r"`f`",
    ),
    Refused(
        "control c() { table t {\n default_action = NoAction; actions = { NoAction; } } apply {} }",
        2,
        r"`actions` before",
    ),
    Refused("parser p() {\n value_set<int>(4) v; state start { transition accept; } }", 2, r"int"),
    Refused(
        "parser p(in bit<8> n) {\n value_set<bit<8>>(n) v; state start { transition accept; } }",
        2,
        r"known",
    ),
)
ACCEPTED = (
    "control c(inout bit<8> x) { action a(bit<8> d) {} table t { key = { x: lpm; } actions = { a; } "
    "const entries = { 0x11 &&& 0x1f0: a(1); } } apply { t.apply(); } }",
    "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
    "t { key = { x: ternary; } actions = { a; b(x); NoAction; } default_action = b(x, 1); size = 4; "
    "const entries = { 1 &&& 3: a(1); _: a(2); } } apply { t.apply(); } }",
    "control c(inout bit<8> x) { action a(bit<8> d) {} action b(inout bit<8> v, bit<8> d) {} table "
    "t { key = { x: lpm; } actions = { a; NoAction; } const entries = { 0x10 &&& 0xf0: a(1); _: "
    "a(2); } } apply { t.apply(); } }",
    "parser p(in bit<8> x) { state start { transition select(x, { x, x }) { (1, { 2, 3 }): accept; "
    "default: reject; } } }",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


def test_errors_of_several_entries_are_all_reported(tmp_path: Path) -> None:
    source = (
        CORE
        + "control c(inout bit<8> x) { action a() {} table t { key = { x: lpm; } actions = { a; NoAction; } "
        "const entries = {\n 1 &&& 0xe1: a();\n (2, 3): a();\n 4: missing();\n 5: a(); } } apply {} }"
    )
    found = diagnostics_of(source, tmp_path)
    assert [each.position.line for each in found if not each.is_warning] == [2, 3, 4]


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)


def test_a_table_with_two_keys_of_the_longest_prefix_is_refused(tmp_path: Path) -> None:
    table = "table t { key = { hdr.first.kind: lpm; hdr.first.count: lpm; } actions = { NoAction; } }"
    with pytest.raises(CompileError, match="one key of the kind lpm in the table `t`, got two"):
        compile_small(tmp_path, ingress_locals=table, ingress="t.apply();")


def test_a_table_in_a_loop_without_known_bounds_is_refused_for_the_loop(tmp_path: Path) -> None:
    table = "table t { actions = { NoAction; } }"
    loop = "for (bit<8> i = 0; i < hdr.first.kind; i = i + 1) { t.apply(); }"
    with pytest.raises(CompileError, match="expected no table in a loop whose repetitions"):
        compile_small(tmp_path, ingress_locals=table, ingress=loop)
