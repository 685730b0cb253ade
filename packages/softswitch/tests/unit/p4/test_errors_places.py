"""Errors by the place of calls, instances and jumps (specification, appendix F)."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused(
        "header H { bit<8> a; } control c(inout bit<8> x, inout H h) { table t { actions = { NoAction; "
        "} }\naction b() { t.apply(); } apply {} }",
        2,
        r"table.*`t\.apply\(\)`.*action",
    ),
    Refused(
        "header H { bit<8> a; } control d() { apply {} } control c(inout bit<8> x, inout H h) { d() "
        "e;\naction b() { e.apply(); } apply {} }",
        2,
        r"control.*`d\.apply\(\)`.*action",
    ),
    Refused("header H { bit<8> a; } action a() {}\nvoid f() { a(); }", 2, r"action.*`a\(\)`.*function"),
    Refused(
        "header H { bit<8> a; } action a() {} parser p() { state start {\n a(); transition accept; } }",
        2,
        r"action.*`a\(\)`.*parser",
    ),
    Refused(
        "extern void verify(in bool b, in error e);header H { bit<8> a; } control c(inout bit<8> x, "
        "inout H h) { apply {\n verify(true, error.NoMatch); } }",
        2,
        r"`verify`.*control",
    ),
    Refused(
        "header H { bit<8> a; } control d() { apply {} } control c(inout bit<8> x, inout H h) { apply "
        "{\n d() e; } }",
        2,
        r"`e`.*statements.*control",
    ),
    Refused("header H { bit<8> a; } extern E { E(); } void f() {\n E() e; }", 2, r"`e`.*function"),
    Refused(
        "header H { bit<8> a; } control d() { apply {} } parser p() {\n d() e; state start { transition "
        "accept; } }",
        2,
        r"control.*parser.*`e`",
    ),
    Refused(
        "header H { bit<8> a; } parser q() { state start { transition accept; } } control d() {\n q() e; "
        "apply {} }",
        2,
        r"parser.*control.*`e`",
    ),
    Refused(
        "header H { bit<8> a; } control d(inout H[2] s) { apply {\n s.last.a = 1; } }",
        2,
        r"`last`.*parser.*control",
    ),
    Refused(
        "header H { bit<8> a; } action d(in H[2] s) {\n bit<32> i = s.lastIndex; }",
        2,
        r"`lastIndex`.*parser.*action",
    ),
    Refused("action a() {\n break; }", 2, r"`break`.*loop"),
    Refused("action a() {\n continue; }", 2, r"`continue`.*loop"),
    Refused("parser p() { state start {\n return; } }", 2, r"`transition`.*`return`"),
    Refused("void f() {\n exit; }", 2, r"`exit`.*function"),
    Refused(
        "header H { bit<8> a; } control c(inout bit<8> x, inout H h) { table t { actions = { NoAction; "
        "} } apply {\n if (t.apply().action_run == t.apply().action_run) {} } }",
        2,
        r"compared|action_run",
    ),
    Refused(
        "header H { bit<8> a; } control c(inout bit<8> x, inout H h) { action a(inout bool b) {} table "
        "t { actions = { NoAction; } } table u { actions = {\n a(t.apply().hit); } } apply {} }",
        2,
        r"",
    ),
    Refused(
        "header H { bit<8> a; } control c(inout bit<8> x, inout H h) { bool f = false; action a(in bool "
        "b) {} table t { actions = { NoAction; } } table u { actions = {\n a(t.apply().hit); } } apply "
        "{} }",
        2,
        r"table.*`t\.apply\(\)`",
    ),
    Refused(
        "parser p() { state start { transition more; } state more { transition start; } }",
        1,
        r"`p`.*accept or reject",
    ),
    Refused("parser p() { state s { transition accept; } }", 1, r"`start`.*`p`"),
    Refused(
        "parser p() { state start { transition accept; }\n state accept { transition reject; } }",
        2,
        r"`accept`",
    ),
    Refused("bit<8> f(bit<8> x) {\n return f(x); }", 2, r"`f`"),
    Refused("action a() {\n a(); }", 2, r"`a`"),
    Refused("action a() {\n b(); } action b() { a(); }", 2, r"`b`"),
)
ACCEPTED = (
    "header H { bit<8> a; } control c(inout bit<8> x, inout H h) { table t { actions = { NoAction; "
    "} } apply { if (t.apply().hit) { exit; } for (bit<8> i in 1 .. 3) { break; } } }",
    "header H { bit<8> a; } parser p(inout H[2] s) { state start { s.next.a = 1; transition "
    "select(s.last.a) { 1: start; } } }",
    "parser p() { state start { transition select(8w1) { 1: start; } } }",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
