"""Random P4_16 programs, compiled, do what an interpreter of their syntax trees does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from switch_harness.effort import examples, seeds
from switch_harness.p4_comparison import Counts, compare
from switch_harness.p4_programs import DrawnProgram, drawn_programs, program_of_seed


@pytest.mark.no_cover
@settings(max_examples=examples(160))
@given(drawn_programs(size=12))
def test_a_drawn_program_does_what_its_syntax_tree_does(drawn: DrawnProgram) -> None:
    with TemporaryDirectory() as folder:
        assert compare(drawn, Path(folder), Counts()) is None


@pytest.mark.parametrize("seed", seeds(40))
def test_large_programs_do_what_their_syntax_trees_do(seed: int, tmp_path: Path) -> None:
    counts = Counts()
    for each in range(10 * seed, 10 * seed + 10):
        drawn = program_of_seed(each, size=40)
        assert compare(drawn, tmp_path, counts) is None, f"seed {each}"
