"""The tool that runs programs of others beside BMv2, on programs that are known to be alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from switch_harness import PROGRAMS
from switch_harness.beside_bmv2 import compare
from switch_harness.copy_programs import compile_drawn

pytestmark = pytest.mark.bmv2


@pytest.mark.parametrize("name", ["copies", "invalid_keys", "lookups"])
def test_programs_give_the_same_output_on_bmv2_and_softswitch(name: str) -> None:
    assert compare(PROGRAMS / name, frames=50, seed=1).startswith("alike: 50 frames")


def test_random_numbers_are_not_compared() -> None:
    assert "random" in compare(PROGRAMS / "digests_logs", frames=1, seed=1)


@pytest.mark.skipif(shutil.which("p4c-bm2-ss") is None, reason="needs p4c-bm2-ss on the PATH")
@pytest.mark.parametrize("seed", range(1, 4))
def test_random_programs_with_copies_give_the_same_output_on_bmv2_and_softswitch(
    seed: int, tmp_path: Path
) -> None:
    assert compare(compile_drawn(seed, tmp_path), frames=30, seed=seed).startswith("alike: 30 frames")
