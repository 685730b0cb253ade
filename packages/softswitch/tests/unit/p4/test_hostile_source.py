"""Hostile source ends in an error, in bounded time and memory."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from random import Random

import pytest

from softswitch.p4.diagnostics import MAX_SHOWN_ERRORS
from switch_harness.p4_sources import refusal

DEPTH = 10_000
MAX_CPU_SECONDS = 4.0  # 2 s on an idle machine
MAX_MEMORY_BYTES = 600 << 20  # beyond what the process had
MAX_MESSAGE_CHARACTERS = 20_000


def within_limits(source: str | bytes, folder: Path) -> str:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    message = refusal(source, folder)
    assert time.process_time() - begin < MAX_CPU_SECONDS
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MAX_MEMORY_BYTES
    assert len(message) < MAX_MESSAGE_CHARACTERS
    return message


def in_apply(statement: str) -> str:
    return f"control c(inout bit<8> x) {{ apply {{ {statement} }} }}"


NESTED = {
    "parentheses": in_apply("x = " + "(" * DEPTH + "1" + ")" * DEPTH + ";"),
    "operators": in_apply("x = " + "~" * DEPTH + "1;"),
    "blocks": in_apply("{" * DEPTH + "}" * DEPTH),
    "conditions": in_apply("if (true) " * DEPTH + ";"),
    "alternatives": in_apply("if (x == 1) ; else " * DEPTH + ";"),
    "conditional expressions": in_apply("x = " + "true ? 1 : " * DEPTH + "1;"),
    "casts": "typedef bit<8> T;" + in_apply("x = " + "(T)" * DEPTH + "1;"),
    "types": "typedef " + "tuple<" * DEPTH + "bit<8>" + " >" * DEPTH + " T;",
    "lists": "const bit<8> x = " + "{" * DEPTH + "}" * DEPTH + ";",
    "subscripts": in_apply("x = x" + "[" * DEPTH + "0" + "]" * DEPTH + ";"),
    "type arguments": in_apply("x = " + "x<(" * 60 + "1" + ")" * 60 + ";"),
    "structured annotations": "@a[" + "{" * DEPTH + "}" * DEPTH + "] const bit<8> x = 1;",
}


@pytest.mark.parametrize("source", NESTED.values(), ids=NESTED)
def test_deep_nesting_is_refused_at_its_place(source: str, tmp_path: Path) -> None:
    assert "hostile.p4:1:" in within_limits(source, tmp_path)


@pytest.mark.parametrize("source", [
    in_apply("x = " + "+".join(["x"] * DEPTH) + ";"),
    in_apply("x = x" + ".a" * DEPTH + ";"),
    "const bit<8> x = " + "++".join(["8w1"] * DEPTH) + ";",
    "@a" * DEPTH + " const bit<8> x = 1;",
    "@a" + "(" * DEPTH + ")" * DEPTH + " const bit<8> x = 1;",
], ids=["sum", "members", "concatenation", "annotations", "brackets of an annotation"])  # fmt: skip
def test_a_long_program_without_main_is_refused_in_time(source: str, tmp_path: Path) -> None:
    within_limits(source, tmp_path)


HUGE = {
    "const bit<1000000000> x = 1;": "8192 bits, got 1000000000",
    "const bit<8> x = 1000000000w1;": "8192 bits, got 1000000000",
    "const int x = 1 << 1000000000;": "shift by less than",
    "const int x = (1 << 65000) * (1 << 65000);": "at most 65536 bits",
    "const int x = " + "9" * 1_000_000 + ";": "at most 4000 digits, got 1000000",
    "const int x = 0x" + "f" * 1_000_000 + ";": "at most 32768 digits, got 1000000",
    "const bit<8> x = " + "9" * 5_000 + "w1;": "at most 9 digits, got 5000",
    "const bit<8> x = 8w1[1000000000000:0];": "bits 0 to 7",
    "header H { bit<8> a; } struct S { H[1000000000] s; }": "0 to 4096 of the stack, got 1000000000",
    "header H { bit<8> a; } struct S { H[4000][4000][4000] s; }": "fields in H[4000][4000], got 16000000",
}


@pytest.mark.parametrize(("source", "fact"), HUGE.items(), ids=[source[:50] for source in HUGE])
def test_a_huge_number_is_refused_with_the_limit(source: str, fact: str, tmp_path: Path) -> None:
    assert fact in within_limits(source, tmp_path)


def chain(form: str, count: int = 60) -> str:
    return "".join(form.format(n=n, next=n + 1) for n in range(count))


DOUBLING = {
    "fields": (
        "struct S0 { bit<8> a; } " + chain("struct S{next} {{ S{n} a; S{n} b; }} "),
        "at most 100000 fields in S17, got 131072",
    ),
    "tuples": (
        "typedef bit<8> T0;" + chain("typedef tuple<T{n}, T{n}> T{next};"),
        "at most 1000 parts, got 1023",
    ),
    "macros": (
        chain("#define A{next} A{n} A{n}\n") + "#define A0 x\nA60\n",
        "at most 400000 tokens",
    ),
    "arguments of macros": (
        chain("#define A{next}(x) A{n}(x x)\n") + "#define A0(x) x\nA60(y)\n",
        "at most 400000 tokens",
    ),
    "joined tokens": (
        "#define P(a, b) a##b\n#define Q(a, b) P(a, b)\n#define X0 x\n"
        + chain("#define X{next} Q(X{n}, X{n})\n")
        + "X60\n",
        "16384 characters|400000 tokens",
    ),
    "strings of macros": (
        "#define T(x) #x\n#define X(x) T(x)\n" + chain("#define S{next}(x) S{n}(X(x x))\n")
        + "#define S0(x) x\nS60(y)\n",
        "16384 characters",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "fact"), DOUBLING.values(), ids=DOUBLING)
def test_a_text_that_doubles_at_each_line_is_refused_with_the_limit(
    source: str, fact: str, tmp_path: Path
) -> None:
    message = within_limits(source, tmp_path)
    assert any(each in message for each in fact.split("|")), message


CYCLIC = {
    "struct A { A a; }": "`A`",
    "struct A { B b; } struct B { A a; }": "`B`",
    "typedef X X;": "`X`",
    "const bit<8> a = b; const bit<8> b = a;": "`b`",
    "bit<8> f(bit<8> x) { return f(x); }": "`f`",
    "action a() { b(); } action b() { a(); }": "`b`",
    "control c() { c() d; apply { d.apply(); } }": "`c`",
    "#define A A A\nA\n": "expected",
    "#define A B B\n#define B A A\nA A\n": "expected",
    '#include "hostile.p4"\n': "at most 100 nested includes",
    "#if 1\n" * 20_000 + "#endif\n" * 20_000: "at most 200 nested conditions",
    "#if " + "(" * DEPTH + "1" + ")" * DEPTH + "\n#endif\n": "nested",
}


@pytest.mark.parametrize(("source", "fact"), CYCLIC.items(), ids=[source[:40] for source in CYCLIC])
def test_recursion_is_refused(source: str, fact: str, tmp_path: Path) -> None:
    message = within_limits(source, tmp_path)
    assert any(each in message for each in fact.split("|")), message


def test_a_megabyte_of_garbage_is_refused(tmp_path: Path) -> None:
    random = Random(1)
    within_limits(random.randbytes(1 << 20), tmp_path)
    within_limits(random.randbytes(1 << 20).decode("latin1"), tmp_path)
    within_limits("".join(map(chr, random.choices(range(35, 123), k=1 << 20))), tmp_path)
    words = ("control", "{", "}", "(", ")", "table", "x", ";", "=", "<", ">", "if", "header")
    within_limits(" ".join(random.choices(words, k=200_000)), tmp_path)


@pytest.mark.parametrize("source", [
    "/*" * 500_000, '"' + "x" * 1_000_000, '"' + '\\"' * 400_000, "\0" * 1_000_000, "\\\n" * 300_000,
], ids=["comment", "string", "escaped quotes", "zeros", "joined lines"])  # fmt: skip
def test_a_megabyte_that_never_ends_is_refused(source: str, tmp_path: Path) -> None:
    within_limits(source, tmp_path)


def test_many_errors_are_shown_up_to_a_limit(tmp_path: Path) -> None:
    message = within_limits("".join(f"const bit<8> x{i} = y{i};\n" for i in range(20_000)), tmp_path)
    assert message.count("error: ") == MAX_SHOWN_ERRORS and f"and {20_000 - MAX_SHOWN_ERRORS} more" in message


@pytest.mark.parametrize("source", [
    "enum E { " + ", ".join(f"a{i}" for i in range(20_000)) + " }",
    "error { " + ", ".join(f"a{i}" for i in range(20_000)) + " }",
    "struct S { " + "".join(f"bit<8> a{i};" for i in range(20_000)) + " }",
    "parser p() { state start { transition s0; }" + chain("state s{n} {{transition s{next};}}", DEPTH) + "}",
    "control c(in bit<32> x) { apply { switch (x) { " + chain("{n}: {{}} ", 10_000) + "} } }",
], ids=["enum", "errors", "fields", "states", "labels"])  # fmt: skip
def test_long_declarations_take_linear_time(source: str, tmp_path: Path) -> None:
    within_limits(source, tmp_path)


@pytest.mark.parametrize("name", ["\x1f", "x" * 5_000, "a\0b", ".", "/", os.devnull])
def test_an_included_name_that_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    message = within_limits(f"#include <{name}>\n", tmp_path)
    assert "include" in message and all(line.isprintable() for line in message.splitlines())


@pytest.mark.parametrize(
    "directive", ["line x", 'line "a"', "include", "include <", "define", "define F(", "if", "x"]
)
def test_an_incomplete_directive_is_refused_at_its_line(directive: str, tmp_path: Path) -> None:
    assert "hostile.p4:2:1" in within_limits(f"\n#{directive}\n", tmp_path)
