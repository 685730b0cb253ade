"""The golden run, made once."""

from __future__ import annotations

import pytest

from tests.unit.golden.run import GoldenRun, make_run


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenRun:
    return make_run(tmp_path_factory.mktemp("golden") / "20260102-030405")
