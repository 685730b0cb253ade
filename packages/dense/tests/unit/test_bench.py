"""The bench has the goals of dense training."""

from __future__ import annotations

import os
from random import Random

import pytest

from switch_bench.processes import Cores
from switch_bench.report import as_tables
from switch_bench.scale import QUICK
from switch_bench.stage import Stage
from tools.bench.__main__ import SECTIONS


@pytest.mark.soak
def test_the_bench_meets_its_goals() -> None:
    """A map in 1 s, all schedulers of BERT-Large in 5 s."""
    core = min(os.sched_getaffinity(0))
    stage = Stage(Cores(core, core, (core,)), QUICK, Random(1), lambda what: None)
    results = SECTIONS["dense"](stage)
    assert [[goal.text() for goal in result.goals] for result in results] == [["≤ 1"], ["≤ 5"], []]
    assert all(result.is_met(goal) for result in results for goal in result.goals)
    (table,) = as_tables(results)
    assert table.row_count == 3
