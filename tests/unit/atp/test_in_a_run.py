"""A run of ATP's arms, simulated: they train the same, and workers' packets are added up in the switch."""

from __future__ import annotations

from pathlib import Path

from tests.harness.lockstep import simulate


def test_it_trains_and_every_worker_has_what_all_have_pushed(tmp_path: Path) -> None:
    run, summary = simulate("atp", tmp_path)
    updates = summary["updates"]
    assert updates["sent"] == updates["applied"] > 1_000
    assert (updates["lost"], updates["mismatched_keys"]) == (0, 0)
    assert summary["vector"] == 500 and summary["last_loss"] < summary["chance_loss"]
    for arm in ("atp", "atp-checked"):
        # 500 values are 9 packets of each of 3 workers, of which the server gets one in three.
        assert summary["arms"][arm]["rpcs_per_step"] == 9.0
        assert summary["arms"][arm]["ps_packets_per_step"] == 3.0
    assert "atp" in (run / "report.html").read_text()
