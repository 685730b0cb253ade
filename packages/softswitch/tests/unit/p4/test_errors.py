"""Errors in declarations: types, parameters, fields, enums, instances of externs, names."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused("type int N;", 1, r"type.*got int"),
    Refused("header H { bit<8> a; } \ntype H N;", 2, r"got H"),
    Refused("enum bit<8> E { A = 1 }\ntype E N;", 2, r"got E"),
    Refused("type error N;", 1, r"got error"),
    Refused("struct S<T,\nT> { T a; }", 1, r"`S`.*`T` twice"),
    Refused("void f<T, T>(in T a) {}", 1, r"`f`.*`T` twice"),
    Refused("struct S { int a; }", 1, r"`a`.*int"),
    Refused("header G {\n error e; }", 2, r"header.*`e`.*error"),
    Refused("enum E { A } header G {\n E e;\n bit<8> b; }", 2, r"header.*`e`.*E"),
    Refused("header W { bit<8> a; } struct S { W w; }\nheader G { S s; }", 2, r"header.*`s`.*S"),
    Refused("header_union U {\n bit<8> b; }", 2, r"union.*`b`.*bit<8>"),
    Refused("struct S { bit<8> a;\n bit<4> a; }", 2, r"`a`.*`S`"),
    Refused("header G<T> { T t; } \ntypedef G<int> X;", 2, r"G<int>.*int.*`t`"),
    Refused("header_union U<T> { T t; }\ntypedef U<bit<8>> X;", 2, r"U<bit<8>>.*bit<8>.*`t`"),
    Refused("struct S<T> { T t; }\ntypedef S<S<bit<8>>> X;", 2, r"S<S<bit<8>>>"),
    Refused("control C(); struct S<T> { T t; }\ntypedef S<C> X;", 2, r"S<C>.*got C"),
    Refused("typedef tuple<bit<8>,\nvoid> T;", 1, r"tuple.*void"),
    Refused("control C();\ntypedef tuple<C> T;", 2, r"tuple.*C"),
    Refused("extern E { E(); }\nheader G { E[2] e; }", 2, r"stack.*E"),
    Refused("enum bit<8> E { A = 1,\n B = 256 }", 2, r"bit<8>.*`B`.*256"),
    Refused("enum bit<8> E { A = 1,\n B = -1 }", 2, r"bit<8>.*`B`.*-1"),
    Refused("type bit<8> N;\nenum N E { A = 1 }", 2, r"got N"),
    Refused("enum E { A,\n B,\n A }", 3, r"`A`"),
    Refused("error { NoMatch }", 1, r"`NoMatch`"),
    Refused("extern void f(in string s);", 1, r"no direction.*`s`.*string"),
    Refused("extern void f(in int i);", 1, r"no direction.*`i`.*int"),
    Refused("extern void f(out bit<8> b = 1);", 1, r"`b`.*out"),
    Refused("extern void f(@optional in bit<8> b = 1);", 1, r"@optional.*`b`.*both"),
    Refused("void f(@optional in bit<8> b) {}", 1, r"function.*`b`"),
    Refused("control C()(@optional bit<8> b) { apply {} }", 1, r"constructor.*`b`"),
    Refused("action a(int x) {}", 1, r"`x`.*int"),
    Refused("extern E { E(); }\naction a(E e) {}", 2, r"`e`.*action.*E"),
    Refused("extern E { E(); }\ncontrol c(in E e) { apply {} }", 2, r"`e`.*E"),
    Refused("control C();\ncontrol D(C c) { apply {} }", 2, r"`c`.*C"),
    Refused("control C() { apply {} }\ncontrol D()(C c) { apply {} }", 2, r"`c`.*C"),
    Refused("parser P();\ncontrol D()(P p) { apply {} }", 2, r"`p`.*P"),
    Refused("control C(); extern E {\n E(C c); }", 2, r"`c`.*C"),
    Refused("extern E<T> { E(); }\ncontrol D(E e) { apply {} }", 2, r"1 type.*`E`"),
    Refused("bit<8> g(in bit<8> a) { return a; }\nbit<8> f(in bit<8> a = g(1)) { return a; }", 2, r"known"),
    Refused("extern E {\n void E(); }", 2, r"constructor `E`"),
    Refused("extern E { E();\n void f(bit<8> a);\n void f(bit<8> a); }", 3, r"`f\(a\)`.*:2:"),
    Refused("extern E { E();\n void f(E e); }", 2, r"`e`.*E"),
    Refused("extern E { E();\n abstract int f(); }", 2, r"`f`.*int"),
    Refused("extern main { }", 1, r"package.*`main`.*extern"),
    Refused("extern E { E(); }\nE() main;", 2, r"package.*`main`.*E"),
    Refused("control C() { apply {} }\nC() c;", 2, r"`c`.*C"),
    Refused(
        "extern E { E(); abstract void f(); }\ncontrol c() { E() e = { void g() {} }; apply {} }",
        2,
        r"E \(f\).*`g`",
    ),
    Refused("extern E { E(); abstract void f(); }\ncontrol c() { E() e = { }; apply {} }", 2, r"`f` of E"),
    Refused(
        "extern E { E(); abstract void f(in bit<8> a); }\ncontrol c() { E() e = { void f(in bit<4> a) {} "
        "}; apply {} }",
        2,
        r"void f\(in bit<8>\).*E.*void f\(in bit<4>\)",
    ),
    Refused(
        "extern E { E(); void f(); }\ncontrol c() { E() e = { void f() {} }; apply {} }",
        2,
        r"abstract.*E",
    ),
    Refused("extern E { E(); abstract void f(); } package P(E e);\nP(E()) main;", 2, r"`f`.*`E\(\.\.\.\)`"),
    Refused("const bit<8> a = b;", 1, r"`b`"),
    Refused("const bit<8> alpha = 1;\nconst bit<8> b = alpah;", 2, r"`alpah`.*`alpha`"),
    Refused("bit<8> x = 1;", 1, r"`const`"),
    Refused("struct A {\n B b; } struct B { A a; }", 2, r"`B`"),
    Refused("const bit<8> a = a;", 1, r"`a`"),
    Refused("typedef struct S {\n X a; } T;", 2, r"`X`"),
    Refused("\ntype struct S { bit<8> a; } T;", 2, r"`struct`"),
)
ACCEPTED = (
    "header H { bit<8> a; } struct S<T> { T t; tuple<T, bool> u; } const S<bit<8>> s = { t = 1, u = "
    "{ 2, true } };",
    "type bit<8> N; type N M; type bool B;",
    "control C(); control D()(C c) { apply { c.apply(); } }",
    "package P<T>(@optional in T a); extern void f(@optional in bit<8> b);",
    "extern E { E(); abstract void f(@optional in bit<8> a); } control c() { E() e = { void f() {} "
    "}; apply {} }",
    "extern E { E(); abstract void f(); } control c() { E() e = { void f() { } }; apply {} }",
    "header V { varbit<8> a; varbit<8> b; } typedef tuple<match_kind> T;",
    "typedef struct S { bit<8> a; } T; typedef enum bit<8> E { A = 1 } F; struct U { S s; T t; E e; F f; }",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
