"""The numbers of arms stand in Python, and programs have them from there."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from foundation.designs.arm_numbers import constant_of, write_arm_numbers
from foundation.designs.hotset import DESIGN as HOTSET
from foundation.designs.programs import P4Error
from foundation.designs.registry import described_design
from tests.unit.repository.test_rooms import ROOT

TUTORIAL = "examples.tutorial"
WITH_NUMBERS = ("sum", "once", "largest", "answers.half", "answers.late")


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_the_files_of_the_tutorial_have_the_numbers_of_python(name: str) -> None:
    design = described_design(f"{TUTORIAL}.{name}")
    folder, _, stem = f"examples/tutorial/{name.replace('.', '/')}".rpartition("/")
    text = (ROOT / folder / f"{stem}_arms.p4").read_text()
    found = dict(re.findall(r"const bit<16> (\w+) = (\d+);", text))
    assert found == {constant_of(arm.name): str(arm.job) for arm in design.arms}


def test_no_other_number_of_an_arm_stands_in_a_program_of_the_tutorial() -> None:
    programs = [file for file in (ROOT / "examples" / "tutorial").rglob("*.p4") if "_arms" not in file.name]
    assert not [file for file in programs if re.search(r"rpc\.job == [^A]", file.read_text())]


def test_a_file_is_written_if_a_program_includes_the_file_with_other_numbers(tmp_path: Path) -> None:
    source, file = tmp_path / "mine.p4", tmp_path / "mine_arms.p4"
    source.write_text('#include "frame.p4"\n')
    design = replace(HOTSET, program=source)
    write_arm_numbers(design)
    assert not file.exists()
    source.write_text('#include "mine_arms.p4"\n')
    write_arm_numbers(design)
    assert "const bit<16> ARM_OFFLOAD_PROXY = 5;\n" in file.read_text()
    time_ns = file.stat().st_mtime_ns
    write_arm_numbers(design)
    assert file.stat().st_mtime_ns == time_ns  # so that nothing is compiled again


def test_a_file_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "mine.p4").write_text('#include "mine_arms.p4"\n')
    (tmp_path / "mine_arms.p4").mkdir()
    with pytest.raises(P4Error, match=r"mine_arms\.p4: cannot be written: "):
        write_arm_numbers(replace(HOTSET, program=tmp_path / "mine.p4"))
