"""Designs whose workers push together, on a network: every worker gets the sum of all pushes."""

from __future__ import annotations

from pathlib import Path

import pytest

from foundation.designs.arms import measured_arms
from foundation.designs.registry import design
from tests.mininet.run_topo import Traces, finished_run, record_of, summary_of

pytestmark = pytest.mark.mininet

SMALL: dict[str, object] = {
    "workers": 3, "top_k": 2000, "rounds": 2, "block_ms": 200, "discard_ms": 50, "block_steps": 20,
    "trace_steps": 200, "calibration_s": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "datapath"),
    [
        ("switchml", "kernel"),
        ("atp", "kernel"),
        pytest.param("switchml", "sockets", marks=pytest.mark.soak),
        pytest.param("psdense", "kernel", marks=pytest.mark.soak),
        pytest.param("ring", "kernel", marks=pytest.mark.soak),
    ],
)
def test_a_lockstep_run_loses_no_update_and_reports_its_design(
    tmp_path: Path, name: str, datapath: str
) -> None:
    variables = (f"DESIGN={name}", f"DATAPATH={datapath}")
    run = finished_run(tmp_path, *variables, small=SMALL)
    record, summary = record_of(run.folder), summary_of(run.folder)
    accounting = record["accounting"]
    assert accounting["lost"] == accounting["mismatched_keys"] == accounting["unknown"] == 0
    assert accounting["sent"] == accounting["applied"] > 10_000
    assert record["datapath"] == datapath and summary["vector"] == 2000
    assert summary["last_loss"] < summary["chance_loss"]
    for arm in measured_arms(name):
        of = summary["arms"][arm.name]
        assert of["steps"] >= 2 * 20
        # 32 chunks of 64 values, 33 of 62; 8 of 256 at servers; 2 (W - 1) steps of ceil(667 / 256) in a ring.
        assert of["rpcs_per_step"] == {"switchml": 32.0, "atp": 33.0, "psdense": 8.0, "ring": 12.0}[name]
    page = (run.folder / "report.html").read_text()
    assert design(name).summary[1:] in page and "2,000 values" in page
    assert Traces.look() == Traces(frozenset(), frozenset())


@pytest.mark.soak
def test_packets_lost_on_a_cable_are_retransmitted_and_no_update_is_lost(tmp_path: Path) -> None:
    """Frames of a cable stay in order, so no copy is late, and sums of integers are exact."""
    run = finished_run(tmp_path, "DESIGN=switchml", small=SMALL, tables="[faults]\nloss = 0.01\n")
    record = record_of(run.folder)
    assert record["accounting"]["lost"] == record["accounting"]["mismatched_keys"] == 0
    assert record["accounting"]["sent"] > 10_000
    assert sum(block["retransmissions"] for block in record["blocks"]) > 10
