"""Runs whose workers push together, simulated: their report, and the accounting of every worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.record import Accounting
from foundation.designs.registry import design as find_design
from hotline_simulator import experiment
from hotline_simulator.accounting import account
from hotline_simulator.session import SimulatedSession
from tests.harness.cli import json_of

SMALL = """
design = "{design}"
workers = 3
servers = 1
top_k = 500
rounds = 2
block_ms = 2
discard_ms = 1
block_steps = 6
trace_steps = 60
calibration_s = 0.005
runs = "{runs}"

[workload]
parameters = 20000
hot_parameters = 400
hot_share = 0.5
keys_per_step = 200
"""


def simulate(design: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a simulated run, and its summary."""
    config = folder / "run.toml"
    config.write_text(SMALL.format(design=design, runs=folder / "runs"))
    summary: dict[str, Any] = json_of("simulate", config)
    return folder / "runs" / "latest", summary


@pytest.mark.parametrize(
    ("design", "rpcs", "ps_packets"),
    [
        # 500 values are 9 packets of each of 3 workers, of which the server gets one in three.
        ("atp", 9.0, 3.0),
        # 500 values are 8 packets, which no server sees.
        ("switchml", 8.0, 0.0),
        ("exact", 8.0, 0.0),
    ],
)
def test_a_run_trains_and_every_worker_has_the_sum_of_all_pushes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, design: str, rpcs: float, ps_packets: float
) -> None:
    spoilt: list[Accounting] = []
    arms = [arm.name for arm in find_design(design).arms]

    def accounted(session: SimulatedSession) -> Accounting:
        found = account(session)
        session.arms[arms[-1]].network.clients[2].model[77] += np.uint32(1)
        spoilt.append(account(session))
        return found

    monkeypatch.setattr(experiment, "account", accounted)
    run, summary = simulate(design, tmp_path)
    assert summary["updates"]["sent"] == summary["updates"]["applied"] > 1_000
    assert (summary["updates"]["lost"], summary["updates"]["mismatched_keys"]) == (0, 0)
    assert summary["vector"] == 500 and summary["last_loss"] < summary["chance_loss"]
    assert list(summary["loads"]) == ["closed loop"]
    for arm in arms:
        assert summary["arms"][arm]["rpcs_per_step"] == rpcs
        assert summary["arms"][arm]["ps_packets_per_step"] == ps_packets
    assert "500 values" in summary["answers"][0]["headline"]
    assert design in (run / "report.html").read_text()

    # The accounting reports one wrong value of one worker.
    [other] = spoilt
    assert (other.mismatched_keys, other.lost) == (1, 1)


def test_a_leaf_sends_one_packet_for_all_of_its_workers(tmp_path: Path) -> None:
    """Servers take turns, each at one of two leaves, with two or three of five workers."""
    workers, packets, frame_bytes = 5, 9, 316  # packets of 500 values
    config = tmp_path / "run.toml"
    network = f'topology = "leaf-spine"\nworkers = {workers}\nservers = 2\n'
    settings = SMALL.replace("workers = 3\nservers = 1\n", network)
    config.write_text(settings.format(design="atp", runs=tmp_path / "runs"))
    summary: dict[str, Any] = json_of("simulate", config)
    assert summary["updates"]["sent"] == summary["updates"]["applied"] > 1_000
    assert (summary["updates"]["lost"], summary["updates"]["mismatched_keys"]) == (0, 0)
    record = json.loads((tmp_path / "runs" / "latest" / "run.json").read_text())
    for arm in find_design("atp").arms:
        simulated = record["simulation"]["arms"][arm.name]
        assert simulated["server_packets"] == packets / workers
        # A packet and its acknowledgement, each from a leaf to the spine and from there to the other leaf.
        assert simulated["uplink_bytes"] == 4 * packets * frame_bytes / workers


def test_a_closed_loop_that_is_faster_than_expected_is_measured_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that was busy while it was calibrated: a block's steps are all done in its discarded time."""
    rate_of = SimulatedSession.rate_of
    monkeypatch.setattr(SimulatedSession, "rate_of", lambda session, arm: rate_of(session, arm) / 100)
    run, summary = simulate("switchml", tmp_path)
    of_arm = summary["arms"]["switchml-checked"]
    assert of_arm["rpcs_per_step"] == 8.0 and of_arm["step_latency_us"]["mean"] > 0
    steps = pl.read_parquet(run / "operations.parquet").filter(pl.col("op") == "step", pl.col("round") >= 0)
    begun = pl.col("scheduled_us") - pl.col("scheduled_us").min().over("arm", "round")
    assert steps.select(begun.max()).item() < 1_000
    assert steps["measured"].any() and not steps["measured"].all()
