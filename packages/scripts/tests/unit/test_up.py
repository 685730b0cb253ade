"""The files of `hotline up`'s sessions, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import polars as pl
import pytest

from experiment.run_config import Config
from foundation.logs.columns import UPDATES
from hotline_scripts.up import UpBackend, folder_of
from tests.harness.sessions import FakeNetwork
from topologies.cpu_placement import place


async def test_the_files_of_earlier_sessions_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session without pushes or reports leaves none."""
    config = Config(runs=tmp_path)
    folder = folder_of(config)
    (folder / "parts").mkdir(parents=True)
    network: Any = FakeNetwork()
    backend = UpBackend(config, place(config.placement, config.servers, config.workers), network)

    for name in ("_start_servers", "_restart_switch"):
        monkeypatch.setattr(backend, name, AsyncMock())
    for pushes in (5, 7, 0, 9):
        backend._has_reports = False
        if pushes:
            (folder / "parts").mkdir(exist_ok=True)
            rows = {name: [1] for name in UPDATES} | {"updates": [pushes]}
            pl.DataFrame(rows, schema=dict(UPDATES)).write_parquet(folder / "parts/updates-ps-0-0.parquet")
            backend.report({"rank": 0, "pushes": pushes})
            backend.report({"rank": 1, "pushes": pushes})
        await backend.end()
    counts = {file.name: pl.read_parquet(file)["updates"].to_list() for file in folder.glob("updates*")}
    assert counts == {"updates-1.parquet": [5], "updates-2.parquet": [7], "updates.parquet": [9]}
    reports = {
        file.name: [json.loads(line)["pushes"] for line in file.read_text().splitlines()]
        for file in folder.glob("reports*")
    }
    assert reports == {"reports-1.jsonl": [5, 5], "reports-2.jsonl": [7, 7], "reports.jsonl": [9, 9]}
