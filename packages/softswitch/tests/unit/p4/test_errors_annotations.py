"""Errors in annotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from switch_harness.p4_sources import CORE, Refused, check_accepted, check_refused

REFUSED = (
    Refused("@name(4) action a() {}", 1, r"`@name.*`4`"),
    Refused('@deprecated("a" | "b") void f() {}', 1, r"`@deprecated.*`\|`"),
    Refused("@pkginfo const bit<8> x = 0;", 1, r"`@pkginfo`"),
    Refused("struct S {\n @match(1 + 1) bit<8> b; }", 2, r"`@match.*`1 \+ 1`"),
    Refused('@p4runtime_translation("x", bool) type bit<8> N;', 1, r"`@p4runtime_translation.*`bool`"),
    Refused("@dup[]\n@dup[] control c() { apply {} }", 2, r"`@dup`"),
    Refused("@number(4)\n@number[] const bit<8> b = 0;", 2, r"`@number`"),
    Refused("@bad[a = { 2, 3 }] const bit<8> b = 0;", 1, r"`@bad"),
    Refused("@bad[1, a = 2] const bit<8> b = 0;", 1, r"`=`"),
    Refused("@bad[b = 4 < c] const bit<8> x = 0;", 1, r"`@bad.*`c`"),
)
ACCEPTED = (
    '@name("x") @deprecated("a" ++ "b") @foo(1 2 [3]) @bar[1, "a", true, 2 + 3] @baz[a = 1, b = '
    '"c"] @empty[] const bit<8> b = 0; @p4runtime_translation("x", bit<16>) type bit<8> N; '
    '@p4runtime_translation("x", string) type bit<8> M;',
)


@pytest.mark.parametrize("case", REFUSED, ids=[case.source[:60] for case in REFUSED])
def test_a_program_that_the_specification_forbids_is_refused_at_its_line(
    case: Refused, tmp_path: Path
) -> None:
    check_refused(case._replace(source=CORE + case.source), tmp_path)


@pytest.mark.parametrize("source", ACCEPTED)
def test_a_program_that_the_specification_allows_is_accepted(source: str, tmp_path: Path) -> None:
    check_accepted(CORE + source, tmp_path)
