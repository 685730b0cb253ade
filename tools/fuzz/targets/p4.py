"""P4_16 source: it compiles, or `CompileError` has messages of one line, each at a place in the source."""

from __future__ import annotations

from collections.abc import Hashable

from foundation.errors import HotlineError
from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import CompileError
from softswitch.p4.token_stream import KEYWORDS
from tools.fuzz.target import Target, scratch

_SYMBOLS = (
    "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",", ".", "=", "==", "!=", "<=", "+", "-", "*", "/",
    "%", "++", "|+|", "&&&", "..", "...", "?", "@", "#", "##", "{#}", "_", "+:", ">>", "<<=", '"', "/*", "*/",
    "//", "\\\n", "\n",
    "#define A(x) x", "#if", "#else", "#endif", "#include <core.p4>", "8w255", "4s7",
    "0x", "1w", "bit<0>", "int<1>", "bit<8192>", ".apply()", "isValid()", "next", "last", "lookahead<",
    "extract(", "NoAction", "main", "accept",
)  # fmt: skip


def run(data: bytes) -> Hashable:
    path = scratch() / "program.p4"
    path.write_bytes(data)
    try:
        lowered = compile_file(path)
    except CompileError as error:
        for each in error.diagnostics:
            assert each.message and each.message.isprintable(), each.message
            assert each.position.line >= 0 and each.position.column >= 0, each.position
        raise HotlineError(error.diagnostics[0].message) from None
    return len(lowered.program.actions), len(lowered.program.headers)


def seeds() -> list[bytes]:
    return [text.encode() for text in (_PROGRAM, _TYPES, _MACROS, _STATEMENTS)]


_PROGRAM = """#include <v1model.p4>
header H { bit<8> a; bit<16> b; }
struct Hs { H h; H[2] s; }
struct M { bit<8> m; bool seen; }
parser P(packet_in p, out Hs hs, inout M m, inout standard_metadata_t s) {
    state start { p.extract(hs.h);
        transition select(hs.h.a) { 1 &&& 3: more; 4 .. 9: accept; default: accept; } }
    state more { p.extract(hs.s.next); verify(hs.s.last.a != 0, error.NoMatch); transition accept; }
}
control V(inout Hs hs, inout M m) { apply {} }
control I(inout Hs hs, inout M m, inout standard_metadata_t s) {
    register<bit<8>>(16) r; counter(16, CounterType.packets) c;
    action forward(bit<9> port) { s.egress_spec = port; c.count((bit<32>) hs.h.a); }
    action drop() { mark_to_drop(s); }
    table t { key = { hs.h.a: exact; hs.h.b: ternary; } actions = { forward; drop; NoAction; }
        const entries = { (1, 2 &&& 3): forward(4); (5, _): drop(); } default_action = drop(); size = 64; }
    apply { if (hs.h.isValid() && t.apply().hit) { r.read(m.m, 3); r.write(3, m.m + 1); }
        switch (hs.h.a) { 1: { exit; } default: { hs.s.push_front(1); } } }
}
control E(inout Hs hs, inout M m, inout standard_metadata_t s) { apply {} }
control K(inout Hs hs, inout M m) { apply {
    update_checksum(hs.h.isValid(), { hs.h.a }, hs.h.b, HashAlgorithm.csum16); } }
control D(packet_out p, in Hs hs) { apply { p.emit(hs); } }
V1Switch(P(), V(), I(), E(), K(), D()) main;
"""
_TYPES = """error { E1 } match_kind { exact }
typedef bit<8> T; type T N; enum Color { Red, Green } enum bit<4> Code { A = 1, B = 3 }
header H { bit<8> a; varbit<32> v; } header_union U { H h; } struct S<X> { X x; tuple<X, bool> t; }
const tuple<bit<8>, int<4>> c = { 1, -2 }; const S<bit<8>> d = { x = 1, t = { 2, true } };
extern Ext<X> { Ext(X x); X get<Y>(in Y y, @optional in X x); abstract void f(inout X x); }
extern void g<X>(out X x, in int<8> i);
bit<8> h(in bit<8> a, bit<8> b = 3) { return a[3:0] ++ b[7:4] |+| 8w2; }
parser Q<X>(in X x); package Pk<X>(Q<X> q, @optional Q<X> r);
@name("a") @foo[x = 1, y = "z"] const bit<16> w = (bit<16>) (1 << 3) ++ Code.A;
"""
_MACROS = """#define TWICE(x) x x
#define JOIN(a, b) a##b
#define TEXT(...) #__VA_ARGS__
#if defined(TWICE) && JOIN(1, 2) == 12
const string s = TEXT(a, b); TWICE(;)
#elif 0
#error no
#endif
#line 7 "x.p4"
const int __LINE__x = __LINE__;
"""
_STATEMENTS = """action a(inout bit<8> x) { for (bit<8> i in 1 .. 3) { x = x + i; if (x == 9) { break; } }
    for (bit<8> i = 0; i < 4; i = i + 1) { x <<= 1; continue; } { int<8> y = (int<8>) x; y |-|= 1; } return; }
control c(inout bit<8> x)(bit<8> n) { bit<8> v = n; apply { a(x); x = x > 3 ? 1 : v; x[3:0] = 4w1; } }
control e(inout bit<8> x) { c(7) one; apply { one.apply(x); } }
"""
TOKENS = tuple(word.encode() for word in (*sorted(KEYWORDS), *_SYMBOLS))
TARGET = Target("p4", run, ("packages/softswitch/src/softswitch/p4",), seeds, TOKENS)
