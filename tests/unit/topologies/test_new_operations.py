"""What the runner reads of the workers' logs between two rounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import polars as pl

from foundation.logs.columns import OPERATIONS
from tests.harness.sessions import real_session
from tests.unit.analysis.synthetic import block


class Worker:
    """Has written its logs when it has answered `flush`."""

    def __init__(self, parts: Path) -> None:
        self._parts = parts
        self.unwritten: dict[str, list[int]] = {}
        """Part file -> when its operations were due, in µs."""

    async def call(self, command: dict[str, Any], *_: object) -> dict[str, Any]:
        assert command == {"cmd": "flush"}
        for name, times in self.unwritten.items():
            text = {"arm": "hot", "op": "pull", "measured": True}
            rows = [{column: 0 for column in OPERATIONS} | text | {"scheduled_us": at} for at in times]
            pl.DataFrame(rows, schema=OPERATIONS).write_parquet(self._parts / name)
        self.unwritten = {}
        return {}


def test_operations_are_read_once_and_those_of_repeated_blocks_are_not_measured(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    worker = Worker(parts)
    session = real_session(run=tmp_path, workers=[worker])
    assert asyncio.run(session.new_operations()).is_empty()
    worker.unwritten = {"operations-worker-1-0.parquet": [10, 20], "rpc-worker-1-0.parquet": [1]}
    assert asyncio.run(session.new_operations())["scheduled_us"].to_list() == [10, 20]
    repeated = block(0, 0.5, "hot").model_copy(update={"begun_us": 25, "ended_us": 35})
    session.record.repeated_blocks.append(repeated)
    worker.unwritten = {"operations-worker-1-1.parquet": [30, 40], "operations-worker-2-0.parquet": [50]}
    found = asyncio.run(session.new_operations()).sort("scheduled_us")
    assert found.select("scheduled_us", "measured").rows() == [(30, False), (40, True), (50, True)]
    assert asyncio.run(session.new_operations()).is_empty()
