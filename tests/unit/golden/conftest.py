"""The golden run, made once in a process, also for the tests of packages, which import this fixture."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.unit.golden.run import GoldenRun, make_run


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenRun:
    return _golden_run_in(tmp_path_factory.getbasetemp())


@cache
def _golden_run_in(folder: Path) -> GoldenRun:
    return make_run(folder / "golden" / "20260102-030405")
