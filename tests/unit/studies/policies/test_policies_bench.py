"""The bench has a line for each policy, with a rate and a goal."""

from __future__ import annotations

import os
from random import Random

from studies.policies.rules import POLICIES
from tools.bench.processes import Cores
from tools.bench.report import as_tables
from tools.bench.scale import QUICK
from tools.bench.sections.policies import policies
from tools.bench.stage import Stage


def test_each_policy_has_its_rate() -> None:
    core = min(os.sched_getaffinity(0))
    stage = Stage(Cores(core, core, (core,)), QUICK._replace(policy_steps=20), Random(1), lambda what: None)
    results = policies(stage)
    assert [spec.title in result.what for spec, result in zip(POLICIES, results, strict=True)] == [True] * 12
    assert all((result.value("one core") or 0) > 1_000 for result in results)
    assert all(goal.bound == 1_000_000 for result in results for goal in result.goals)
    (table,) = as_tables(results)
    assert table.row_count == 12
