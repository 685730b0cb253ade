"""Fixtures of the analysis' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.analysis.synthetic import SyntheticRun, make_run


@pytest.fixture
def synthetic_run(tmp_path: Path) -> SyntheticRun:
    return make_run(tmp_path / "run")
