"""Runs whose workers push together, in virtual time: their report, and books that ask every worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from analysis.record import Accounting
from simulator import experiment
from simulator.accounting import account
from simulator.session import SimulatedSession
from tests.harness.lockstep import simulate


def test_it_trains_and_every_worker_has_what_all_have_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt: list[Accounting] = []

    def accounted(session: SimulatedSession) -> Accounting:
        found = account(session)
        session.arms["switchml-checked"].network.clients[2].model[77] += np.uint32(1)
        spoilt.append(account(session))
        return found

    monkeypatch.setattr(experiment, "account", accounted)
    run, summary = simulate("switchml", tmp_path)
    assert summary["updates"]["sent"] == summary["updates"]["applied"] > 1_000
    assert (summary["updates"]["lost"], summary["updates"]["mismatched_keys"]) == (0, 0)
    assert summary["vector"] == 500 and summary["last_loss"] < summary["chance_loss"]
    assert list(summary["loads"]) == ["closed loop"]
    for arm in ("switchml", "switchml-checked"):
        # 500 values are 8 packets, which no server sees.
        assert summary["arms"][arm]["rpcs_per_step"] == 8.0
        assert summary["arms"][arm]["ps_packets_per_step"] == 0.0
    assert "500 values" in summary["answers"][0]["headline"]
    assert "switchml" in (run / "report.html").read_text()

    # Where one value of one worker is another, the books say so.
    [other] = spoilt
    assert (other.mismatched_keys, other.lost) == (1, 1)


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
