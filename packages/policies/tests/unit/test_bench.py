"""The bench has a rate for each policy."""

from __future__ import annotations

import os
from random import Random

import pytest

from hotline_policies.rules import POLICIES
from packages.policies import bench as section
from switch_bench.processes import Cores
from switch_bench.report import as_tables
from switch_bench.scale import QUICK
from switch_bench.stage import Stage


def test_each_policy_has_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "policy_steps", lambda _: 20)
    core = min(os.sched_getaffinity(0))
    stage = Stage(Cores(core, core, (core,)), QUICK, Random(1), lambda what: None)
    results = section.policies(stage)
    assert all(spec.title in result.what for spec, result in zip(POLICIES, results, strict=True))
    assert all((result.value("one core") or 0) > 1_000 for result in results)
    assert all(goal.bound == 1_000_000 for result in results for goal in result.goals)
    (table,) = as_tables(results)
    assert table.row_count == len(POLICIES)
