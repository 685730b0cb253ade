"""`make mutants` is run by hand: that its rooms are still there is for every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli

ROOT = Path(__file__).parents[2]
ROOMS = tomli.loads((ROOT / "tests" / "mutants" / "rooms.toml").read_text())


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_mutated_and_what_should_notice_exists(room: str) -> None:
    assert all(list((ROOT / source).glob("*.py")) for source in ROOMS[room]["sources"])
    assert all((ROOT / test).exists() for test in ROOMS[room]["tests"])
