"""The tool that runs programs of others beside BMv2, on programs that are known to be alike."""

from __future__ import annotations

import pytest

from switch_harness.beside_bmv2 import compare
from switch_harness.constructs import PROGRAMS

pytestmark = pytest.mark.bmv2


@pytest.mark.parametrize("name", ["copies", "invalid_keys", "lookups"])
def test_programs_are_alike(name: str) -> None:
    assert compare(PROGRAMS / name, frames=50, seed=1).startswith("alike: 50 frames")


def test_random_numbers_are_not_compared() -> None:
    assert "random" in compare(PROGRAMS / "digests_logs", frames=1, seed=1)
