"""A cluster's logs of a few rows, all of whose figures are known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from analysis.figures.figure_data import Source, source_of_cluster
from foundation.logs.cluster import open_cluster

ROW = {
    "worker": 1, "ps": 0, "iteration": 0, "op": "pull", "t_send_us": 0, "request_bytes": 100,
    "response_bytes": 200, "w_proc_us": 1.0, "w_queue_us": 2.0, "ps_proc_us": 30.0, "ps_queue_us": 7.0,
    "n_tx_us": 60.0,
}  # fmt: skip
"""An RPC of 100 µs."""


def rows(*changes: Mapping[str, object]) -> pl.DataFrame:
    """Return a row for each change, which replaces columns of `ROW`."""
    return pl.DataFrame([{**ROW, **each} for each in changes])


def cluster(folder: Path, rpc: pl.DataFrame, **others: pl.DataFrame) -> Source:
    logs, scratch = folder / "logs", folder / "scratch"
    for made in (logs, scratch):
        made.mkdir()
    for name, log in {"rpc": rpc, **others}.items():
        log.write_csv(logs / f"{name}.csv")
    return source_of_cluster(open_cluster(logs, scratch))
