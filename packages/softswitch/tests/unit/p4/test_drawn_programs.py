"""Random P4_16 programs, compiled, do what an interpreter of their syntax trees does.

`-s` prints what was compared: programs, frames, and programs that read undefined values.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

import softswitch.p4
from switch_harness import p4_interpreter
from switch_harness.effort import examples, seeds
from switch_harness.p4_comparison import Counts, compare
from switch_harness.p4_planted_bugs import BUGS, PlantedBug, noticed_by
from switch_harness.p4_programs import DrawnProgram, drawn_programs, program_of_seed

_RECURSION_LIMIT = 20_000
_FIRST_SLOW_BUG = 1
"""Number of the planted bug from which on they are tried in the soak only."""


@pytest.fixture(scope="module")
def counts() -> Iterator[Counts]:
    made = Counts()
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    yield made
    sys.setrecursionlimit(limit)
    print(f"{made}")


@pytest.mark.no_cover
@settings(max_examples=examples(120))
@given(drawn_programs(size=12))
def test_a_drawn_program_does_the_same_as_its_syntax_tree(counts: Counts, drawn: DrawnProgram) -> None:
    with TemporaryDirectory() as folder:
        assert compare(drawn, Path(folder), counts) is None


@pytest.mark.parametrize("seed", seeds(40))
def test_large_programs_do_the_same_as_their_syntax_trees(counts: Counts, seed: int, tmp_path: Path) -> None:
    for each in range(10 * seed, 10 * seed + 10):
        assert compare(program_of_seed(each, size=40), tmp_path, counts) is None, f"seed {each}"


@pytest.mark.parametrize("seed", seeds(16))
def test_machine_code_of_programs_does_the_same_as_their_syntax_trees(
    counts: Counts, seed: int, tmp_path: Path
) -> None:
    for each in range(4 * seed, 4 * seed + 4):
        difference = compare(program_of_seed(each, size=10), tmp_path, counts, is_native=True)
        assert difference is None, f"seed {each}"


@pytest.mark.parametrize("bug", BUGS, ids=range(len(BUGS)))
def test_a_planted_bug_has_one_place(bug: PlantedBug) -> None:
    text = Path(softswitch.p4.__file__).with_name(f"{bug.module}.py").read_text()
    assert text.count(bug.original) == 1


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "number", [pytest.param(i, marks=[pytest.mark.soak] * (i >= _FIRST_SLOW_BUG)) for i in range(len(BUGS))]
)
def test_a_bug_in_the_compiler_is_noticed(number: int) -> None:
    assert noticed_by(number), BUGS[number]


def test_the_interpreter_of_trees_uses_nothing_of_lowering() -> None:
    folder = Path(p4_interpreter.__file__).parent
    imports = {
        line.split()[1]
        for file in folder.glob("*.py")
        for line in file.read_text().splitlines()
        if line.startswith("from softswitch")
    }
    assert imports <= {f"softswitch.p4{module}" for module in ("", ".scopes", ".unify")}
