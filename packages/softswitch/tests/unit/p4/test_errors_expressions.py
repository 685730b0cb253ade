"""Errors in expressions: casts, comparisons, lists, literals."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused("const bool b = (bool) 3;", 1, r"bool.*int"),
    Refused("type bit<4> N;\nconst N n = (N) 8w1;", 2, r"N.*bit<8>"),
    Refused("header H { bit<8> a; } control c() { apply {\n H[2] s = { { 1 } }; } }", 2, r"H\[2\].*tuple"),
    Refused("const bool b = (bool) 2s0;", 1, r"bool.*int<2>"),
    Refused("const bit<8> b = 0s0;", 1, r"1 to \d+.*0"),
    Refused("const bit<8> b = 1000000000w1;", 1, r"0 to \d+.*1000000000"),
    Refused("const bit<1000000000> b = 1;", 1, r"0 to \d+.*1000000000"),
    Refused("header H { bit<8> a; } struct S { H[1000000000] s; }", 1, r"0 to \d+.*1000000000"),
    Refused("header E { } control c() { apply {\n E e = { b = 1 }; } }", 2, r"E.*`b`"),
    Refused("control c() { apply {\n tuple<> s = { b = 2, ... }; } }", 2, r"tuple"),
    Refused("header H { bit<8> a; } control c() { apply {\n H h = { # }; } }", 2, r"without spaces"),
    Refused("header H { bit<8> a; } control c() { apply {\n bit<8> b = {#}; } }", 2, r"bit<8>.*invalid"),
    Refused(
        "header H { bit<8> a; } control c(in tuple<bit<8>> t) { apply {\n H h = t; } }",
        2,
        r"H.*tuple<bit<8>>",
    ),
    Refused(
        "header H { bit<8> a; } header_union U { H h; } control c() { apply {\n U u = { { 1 } }; } }",
        2,
        r"U.*list",
    ),
    Refused("void f<T>(in T a, in T b) {\n bool c = a == b; }", 2, r"compared.*T"),
    Refused(
        "extern E { E(); } control c() { E() e; E() f; apply {\n bool b = e == f; } }",
        2,
        r"compared.*E",
    ),
    Refused("const bool b =\n{ a = 1 } == { a = 1 };", 2, r"compared"),
    Refused("extern E {\n E(list<bit<8>> l = ...); }", 2, r"list<bit<8>>"),
    Refused("const bit<8> b = 8w1[9:0];", 1, r"0 to 7.*bit 9"),
    Refused("const bit<8> b = 8w1[0:3];", 1, r"\[0:3\]"),
    Refused("const bit<8> b = 1 / 0;", 1, r"above 0.*0|other than 0"),
    Refused("const bit<8> b = 1 << -1;", 1, r"at least 0.*-1"),
    Refused("const bit<8> b = 8w1 + 4w1;", 1, r"`\+`.*bit<8>.*bit<4>"),
    Refused("const bit<8> b = true;", 1, r"bit<8>.*bool"),
)
ACCEPTED = (
    "const bool b = (bool) 1; const bit<8> c = 8w255 ++ 0w0;",
    "header H { bit<8> a; } control c() { apply { H h = {#}; h = { 1 }; h = { a = 1 }; h = { ... }; "
    "tuple<bit<8>> t = { 1 }; } }",
    "const tuple<bit<8>, bool> t = { 1, true }; const bool b = t == { 1, true };",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
