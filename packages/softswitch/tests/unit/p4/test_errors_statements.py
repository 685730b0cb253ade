"""Errors in statements: switches, loops, variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused("control c(in bit<8> x) { apply { switch (x) { 1: {}\n 1: {} } } }", 2, r"`1` twice|1.*twice"),
    Refused(
        "control c(in bit<8> x) { apply { switch (x) { default: {}\n 1: {} } } }",
        2,
        r"`default`.*label",
    ),
    Refused(
        "control c(in bit<8> x) { apply { switch (x) { default: {}\n default: {} } } }",
        2,
        r"`default`.*another",
    ),
    Refused("control c(in bit<8> x) { apply { switch (x) {\n x: {} } } }", 2, r"known"),
    Refused('control c() { apply {\n switch ("a") { } } }', 2, r"string"),
    Refused("control c() { apply {\n switch (...) { } } }", 2, r"switch"),
    Refused(
        "control c() { table t { actions = { NoAction; } } apply { switch (t.apply().action_run) { "
        "NoAction: {}\n NoAction: {} } } }",
        2,
        r"`NoAction` twice",
    ),
    Refused(
        "enum E { A, B } control c(in E e) { apply { switch (e) { E.A: {}\n E.A: {} } } }",
        2,
        r"A.*twice",
    ),
    Refused("control c() { apply {\n int x = 1; } }", 2, r"`x`.*int"),
    Refused("control c(in bit<8> x) { apply {\n bit<8> x = 1; } }", 2, r"`x`.*:1:"),
    Refused("control c() { apply { bit<8> n = 0;\n for (i in 1 .. 3) { n = n + i; } } }", 2, r"`i`"),
    Refused("control c() { apply { bit<8> x\n = 1;\n x = 2 } }", 3, r"`;`.*`}`"),
)
ACCEPTED = (
    "control c(in bit<8> x) { apply { switch (x) { 1: 2: {} 3: {} default: {} } } }",
    "control c(in bit<8> x) { bit<8> y = 1; apply { for (bit<8> i in 1 .. 3) { y = y + i; } } }",
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
