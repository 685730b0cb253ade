"""A log that drifts at its three quarters, and studies without a page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page and its drawings: most of a command's time, and tests of the page have them."""
    monkeypatch.setattr("hotline_policies.page.write_page", lambda study, folder: folder / "report.html")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path)


def write_log(folder: Path) -> Path:
    """Write 200 steps of 20 keys of 400: ten hot keys are in every other step, other ten from step 150 on."""
    chance = np.random.default_rng(1)
    rows = []
    for step in range(200):
        hot = np.arange(10) + (0 if step < 150 else 50)
        cold = chance.choice(np.arange(100, 400), 15, replace=False)
        rows += [(step, 1, int(key)) for key in {*hot[step % 2 :: 2].tolist(), *cold.tolist()}]
    path = folder / "log.parquet"
    pl.DataFrame(rows, ["iteration", "worker", "key"], orient="row").write_parquet(path)
    return path
