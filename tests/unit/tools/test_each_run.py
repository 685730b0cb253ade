"""The table of each run has what the run's summary says of its blocks and claims."""

from __future__ import annotations

from pathlib import Path

from analysis.claims import answer, claim_of_capacity
from tools.evidence.stages.each_run import each_run
from tools.evidence.stages.real_runs import summary_of_step
from tools.evidence.stages.run_changes import TITLES

STAGE = Path(__file__).parent / "evidence" / "optimiser-runs"


def test_each_run_has_rounds_disturbed_blocks_and_claims() -> None:
    summary = summary_of_step(STAGE, "seed-41")
    [(name, load)] = summary.loads.items()
    changed_load = load.model_copy(update={"rounds": 7, "blocks_disturbed": 3, "blocks_repeated": 5})
    changed = summary.model_copy(update={"loads": {name: changed_load}})
    table = each_run("changes", {"one": summary, "other": changed})
    assert [table.cell("rounds", run) for run in ("one", "other")] == [load.rounds, 7]
    assert [table.cell("disturbed blocks", run) for run in ("one", "other")] == [load.blocks_disturbed, 3]
    claimed = table.cell("differences claimed", "one")
    assert isinstance(claimed, str)
    claims = dict(answer(summary).claims)
    assert summary.lead is not None
    capacity = claim_of_capacity(summary, summary.lead)
    signs = [claim.sign for metric, claim in claims.items() if metric in TITLES]
    signs += [] if capacity is None else [capacity.sign]
    assert len(claimed.split(", ")) == sum(map(bool, signs)) > 0
