"""Warnings of what nothing uses, and of variables that are read before they have a value."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, diagnostics_of

WARNED = (
    ("control c() {\n action a() {} apply {} }", 2, r"action `a`.*never used"),
    ("control c() {\n table t { actions = { NoAction; } } apply {} }", 2, r"table `t`.*never used"),
    ("control c() {\n bit<8> v; apply {} }", 2, r"variable `v`.*never used"),
    ("action a() {\n bit<8> v = 1; }", 2, r"variable `v`.*never used"),
    ("control c(out bit<8> x) { apply { bit<8> v;\n x = v; } }", 2, r"`v` is read.*:1:"),
    ("control c(out bit<8> x) { apply { bit<8> v;\n v = v + 1; x = v; } }", 2, r"`v` is read"),
    ("control c(out bit<8> x) { apply { bit<8> v;\n v += 1; x = v; } }", 2, r"`v` is read"),
    (
        "control c(out bit<8> x) { apply { bit<8> v; x = 0; if (x == 1) {\n x = v; } v = 1; } }",
        2,
        r"`v` is read",
    ),
    ("extern void f(inout bit<8> x); control c() { apply { bit<8> v;\n f(v); } }", 2, r"`v` is read"),
    ("control c(out bit<8> x) { apply { bool v; x = 0;\n if (v) { x = 1; } } }", 2, r"`v` is read"),
)
QUIET = (
    "control c(out bit<8> x) { apply { bit<8> v; v = 1; x = v; } }",
    "control c(out bit<8> x, in bool b) { apply { bit<8> v; if (b) { v = 1; } x = v; } }",
    "control c(out bit<8> x) { apply { bit<8> v; v[3:0] = 1; x = v; } }",
    "extern void f(out bit<8> x); control c(out bit<8> x) { apply { bit<8> v; f(v); x = v; } }",
    'control c(out bit<8> x) { apply @noWarn("uninitialized_use") { bit<8> v; x = v; } }',
    'control c() { @noWarn("unused") action a() {} apply {} }',
    "control c() { table t { actions = { NoAction; } } apply { t.apply(); } }",
    "control c(in bit<8> x) { apply { bit<8> v; switch (x) { 1: { v = 1; } default: { v = 2; } }"
    " bit<8> w = v; w = w + v; } }",
)


@pytest.mark.parametrize(("source", "line", "facts"), WARNED)
def test_a_suspicious_declaration_or_read_causes_one_warning(
    source: str, line: int, facts: str, tmp_path: Path
) -> None:
    [found] = diagnostics_of(CORE + source, tmp_path)
    assert found.is_warning and found.position.line == line and re.search(facts, found.message), found


@pytest.mark.parametrize("source", QUIET)
def test_a_use_that_may_be_right_causes_no_warning(source: str, tmp_path: Path) -> None:
    assert not diagnostics_of(CORE + source, tmp_path)
