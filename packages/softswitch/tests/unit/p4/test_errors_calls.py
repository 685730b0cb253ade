"""Errors in calls: inference, arguments, methods of packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused("extern void f<T>(in T t); control c() { apply {\n f(5); } }", 2, r"`f`.*`T`.*int"),
    Refused("extern void f<T>(in T t); control c() { apply {\n f({ a = 8w1 }); } }", 2, r"`f`.*`T`.*a"),
    Refused("extern T f<T>(); control c() { apply {\n f(); } }", 2, r"`T`.*`f`"),
    Refused("package P<T>();\nP() main;", 2, r"`T`.*`P"),
    Refused("extern E<T> { E(); } control c() {\n E() e; apply {} }", 2, r"`T`.*`E"),
    Refused(
        "void f<T>(in T t) {} control c() { table t { actions = { NoAction; } } apply {\n f(t); } }",
        2,
        r"`t`.*t",
    ),
    Refused("action a() {} control c() { apply {\n a<bit<8>>(); } }", 2, r"`a`"),
    Refused(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
        "lookahead<T>(); } parser p(packet_in b, out bit<8> x) { state start {\n b.extract(x); "
        "transition accept; } }",
        2,
        r"header.*bit<8>",
    ),
    Refused(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
        "lookahead<T>(); } header H { bit<8> a; } parser p(packet_in b, out H h) { state start {\n "
        "b.extract(h, 8); transition accept; } }",
        2,
        r"varbit.*H has 0",
    ),
    Refused(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
        "lookahead<T>(); } header V { varbit<8> v; } parser p(packet_in b, out V h) { state start {\n "
        "b.extract(h); transition accept; } }",
        2,
        r"varbit.*V has 1",
    ),
    Refused(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
        "lookahead<T>(); } header V { varbit<8> v; } parser p(packet_in b, out V h) { state start {\n h "
        "= b.lookahead<V>(); transition accept; } }",
        2,
        r"`lookahead`.*V",
    ),
    Refused(
        "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
        "lookahead<T>(); } parser p(packet_in b) { state start {\n b.lookahead<void>(); transition "
        "accept; } }",
        2,
        r"`lookahead`.*void",
    ),
    Refused(
        "control d(in bit<8> x) { apply {} } control c(in bit<4> y) { d() e; apply {\n e.apply(y); } }",
        2,
        r"bit<8>.*bit<4>",
    ),
    Refused("control d()(bit<8> n) { apply {} } control c(in bit<8> y) {\n d(y) e; apply {} }", 2, r"known"),
    Refused(
        "header H { bit<8> a; } control c(inout H[2] s, in bit<8> n) { apply {\n s.push_front(n); } }",
        2,
        r"known",
    ),
    Refused(
        "header H { bit<8> a; } control c(in H h) { apply { bit<32> n = (bit<32>) "
        "(\nh.minSizeInBits<bit>()); } }",
        2,
        r"`minSizeInBits`",
    ),
    Refused("T f<T>(tuple<bit<8>> x) {\n return x; }", 2, r"T.*tuple"),
    Refused("void f<T>(T a) {} void g<t>(in t b) {\n f<bit<8>>(b); }", 2, r"bit<8>.*t"),
    Refused(
        "extern E { E(); void g(in bit<8> a); void g(in bit<8> b); } control c() { E() e; apply {\n "
        "e.g(1); } }",
        2,
        r"`g`.*:1:.*:1:",
    ),
    Refused(
        "control d() { apply {} } void f<T>(T t) {} control c() { d() e; apply {\n f(e); } }",
        2,
        r"instance of d",
    ),
    Refused('extern void f<T>(in T t); control c() { apply {\n f("x"); } }', 2, r"string.*`t`"),
    Refused("extern void f(in bit<8> a, in bit<8> b); control c() { apply {\n f(1); } }", 2, r"`b` of `f`"),
    Refused("extern void f(in bit<8> a); control c() { apply {\n f(c = 1); } }", 2, r"`f` \(a\).*`c`"),
)
ACCEPTED = (
    "extern void f<T>(in T t); struct S { bit<8> a; } control c() { apply { f(8w5); f<bit<4>>(5); "
    "f<S>({ a = 1 }); } }",
    "extern packet_in { void extract<T>(out T h); void extract<T>(out T h, in bit<32> n); T "
    "lookahead<T>(); } header V { varbit<8> v; } header H { bit<8> a; } parser p(packet_in b, out V "
    "v, out H h) { state start { b.extract(h); b.extract(v, 8); transition accept; } }",
    "control E<T>(); package P<T>(E<T> e); control e() { apply {} } P<_>(e()) main;",
    "extern W { } extern W make<T>(T t); control C(); control d()(W w) { apply {} } package P(C c); "
    "P(d(make(8w1))) main;",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
