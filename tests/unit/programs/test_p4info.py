"""P4Info of the designs' programs, which softswitch's compiler writes as p4c does."""

from __future__ import annotations

import pytest

from scripts import p4
from softswitch.p4.compiler import compile_file
from softswitch.p4.p4info import p4info, p4info_text

PROGRAMS = [
    program
    for tree in p4.trees()
    if not tree.is_relative_to(p4.ROOT / "softswitch")
    for program in p4.programs_of(tree)
]
FOLDERS = [p4.ROOT / "p4src", *sorted(p4.ROOT.glob("packages/*/p4src"))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.source.stem)
def test_p4info_of_a_design_is_that_of_p4c(program: p4.P4Program) -> None:
    lowered = compile_file(program.source, FOLDERS)
    assert p4info_text(p4info(lowered)) == program.output.with_suffix(".p4info.txtpb").read_text()
