"""A hot set is replaced by the command line while workers train on a bad network, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from protocol.arms import JOBS
from tests.mininet.run_topo import Run, run_topo

pytestmark = pytest.mark.mininet

FAULTS = "[faults]\nloss = 0.05\nduplication = 0.05\nreordering = 0.05\n"
HOT = str(JOBS["hot"])


def hotline(port: int, *words: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "controller", *words, "--switch", f"127.0.0.1:{port}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def hot_keys(port: int) -> set[int]:
    return {row["key"] for row in json.loads(hotline(port, "registers", "--job", HOT, "--json"))}


def wait_until_measuring(run: Run) -> None:
    """Some blocks of every arm are done."""
    run.wait_for(lambda: len(list(run.runs.glob("*/parts/operations-worker-1-*.parquet"))) >= 12)


def test_a_hot_set_is_replaced_under_load_on_a_bad_network(tmp_path: Path) -> None:
    with run_topo(tmp_path, "ROUNDS=8", tables=FAULTS) as run:
        wait_until_measuring(run)
        [old] = run.runs.glob("*/hotset.parquet")
        keys = pl.read_parquet(old)["key"].to_list()
        other = tmp_path / "other.csv"
        # Half of the old set, and as many keys that were cold.
        wanted = (
            keys[: len(keys) // 2] + [key for key in range(50_000) if key not in set(keys)][: len(keys) // 2]
        )
        other.write_text("key,updates\n" + "".join(f"{key},{10 + i}\n" for i, key in enumerate(wanted)))
        replaced = tmp_path / "other.parquet"
        words = ["hotset", "build", str(other), "--top-k", str(len(wanted)), "-o", str(replaced)]
        subprocess.run([sys.executable, "-m", "controller", *words], check=True, capture_output=True)
        hotline(run.port, "load", str(replaced), "--job", HOT)
        assert hot_keys(run.port) == set(wanted)
        assert run.wait() == 0, run.errors
    summary = json.loads((run.folder / "summary.json").read_text())
    updates = summary["updates"]
    assert (updates["lost"], updates["unknown"], updates["mismatched_keys"]) == (0, 0, 0)
    assert updates["sent"] == updates["applied"]
    assert summary["overflows"] == 0
