"""What a run learns from its scripts before it profiles: whether hot sets of their tables fit, and more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import numpy as np
import polars as pl
import pytest

from controller.hotset import choice
from controller.hotset.migrate import plan
from controller.tables import HotParam
from experiment.design_parts import initial_rows
from experiment.errors import ConfigError, RunFailed
from experiment.hotset_arms import select
from experiment.run_config import Config, load_config, max_top_k
from foundation.designs.arms import profile_arm
from foundation.logs.columns import UPDATES
from hosts.keys import KeySpace
from hotline_scripts.embedding_tables import make_tables
from hotline_scripts.run import running_cluster
from hotline_scripts.run.running_cluster import script_cluster
from hotline_scripts.run.session import ObservedWorkload, ScriptSession
from hotline_scripts.terms import tables_of_design
from switch_harness.wording import mentions
from tests.harness.records import a_record
from tests.harness.sessions import FakeNetwork, IdleSession, quiet
from topologies.cpu_placement import Placement
from topologies.fleet import RunContext

SCRIPT = "SCRIPT=train.py"
TABLES: list[dict[str, tuple[int, int]]] = [
    {"one": (40_000, 1)},
    {"one": (30_000, 2)},
    {"one": (30_000, 16)},
    {"one": (9_000, 64)},
    {"one": (5_000, 128)},
    {"one": (5_000, 300)},
    {"few": (3, 128), "more": (30_000, 16), "most": (30_000, 1)},
]


def space_of(config: Config, tables: dict[str, tuple[int, int]]) -> KeySpace:
    return tables_of_design(config, make_tables(tables)).space


@pytest.mark.parametrize("tables", TABLES, ids=str)
async def test_the_hot_sets_of_a_script_s_tables_fit_into_the_switch(
    tables: dict[str, tuple[int, int]], tmp_path: Path
) -> None:
    """Those of the profile and of both arms, with the dims of their rows."""
    config = load_config([SCRIPT])
    space = space_of(config, tables)
    config = config.with_tables_of_script(space.ranges)
    (session := IdleSession(config, tmp_path)).parts.mkdir()
    profile = profile_arm(config.design)
    keys = np.arange(space.size, dtype=np.uint64)
    rows = {"job": profile.job, "ps": 0, "key": keys, "updates": (keys * 7_919) % 1_000 + 1}
    pl.DataFrame(rows, schema=dict(UPDATES)).write_parquet(session.parts / "updates-ps-0-0.parquet")
    hot_keys = await select(session)
    assert len(hot_keys) == min(config.top_k, space.size)
    choice.check_dims(choice.read(session.hot_set_file), space.key_ranges, "hot set", "the script")
    entries: list[HotParam] = []
    for arm in (profile, *config.offloaded_arms):
        moves = plan(entries, arm.job, hot_keys, True, ranges=space.key_ranges)
        entries += [move.param for move in moves.arriving]
    assert config.has_room_for_profile and len(entries) == 3 * len(hot_keys)


@pytest.mark.parametrize("dim", [1, 2, 16, 64, 100, 128])
@pytest.mark.parametrize("more", [[], ["DESIGN=collect"]], ids=str)
def test_a_script_has_the_size_that_a_run_with_dim_has(dim: int, more: list[str]) -> None:
    config = load_config([SCRIPT, *more])
    config = config.with_tables_of_script(space_of(config, {"narrow": (10, 1), "wide": (10, dim)}).ranges)
    assert config.top_k == load_config([f"DIM={dim}", *more]).top_k


def test_a_design_without_rows_has_the_size_of_keys_of_one_value() -> None:
    config = load_config([SCRIPT])
    without_rows = make_tables({"wide": (10, 64)}).in_design(has_rows=False).space
    assert config.with_tables_of_script(without_rows.ranges) == config


@pytest.mark.parametrize("arms", [("baseline", "offload"), ("baseline", "proxy", "offload", "offload-proxy")])
def test_a_configured_size_is_kept_if_the_switch_has_room_and_else_refused(arms: tuple[str, ...]) -> None:
    jobs = len(arms) // 2
    ranges = space_of(Config(script="train.py"), {"items": (90_000, 64)}).ranges
    config = Config(script="train.py", arms=arms, top_k=max_top_k(jobs, 64))
    assert config.with_tables_of_script(ranges).top_k == max_top_k(jobs, 64)
    config = Config(script="train.py", arms=arms, top_k=max_top_k(jobs, 64) + 1)
    with pytest.raises(ConfigError, match=mentions("script", config.top_k, f"{max_top_k(jobs, 64):,}", 64)):
        config.with_tables_of_script(ranges)


def test_a_rule_is_checked_with_the_size_that_follows_from_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "picky_rule.py").write_text(
        "def RULE(top_k):\n    assert top_k >= 10_000, f'too small: {top_k}'\n"
        "    return type('Chooser', (), {'choose': lambda self, period: period.keys})()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = load_config([SCRIPT, "RULE=picky_rule:RULE"])
    with pytest.raises(ConfigError, match=mentions("picky_rule", "too small", 2388)):
        config.with_tables_of_script(space_of(config, {"items": (90_000, 64)}).ranges)


def context_of(config: Config, run: Path) -> RunContext:
    record = a_record(config=config.model_dump(mode="json"))
    return RunContext(config, run, record, quiet(), Placement(), FakeNetwork(), SimpleNamespace())  # type: ignore[arg-type]  # no process is watched


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Scripts whose workers have joined with tables of long rows."""
    space = space_of(Config(script="train.py"), {"items": (90_000, 64)})
    scripts = SimpleNamespace(arms=[], workers=[], servers=[], space=space)

    @asynccontextmanager
    async def script_group(context: RunContext) -> AsyncIterator[SimpleNamespace]:
        yield scripts

    monkeypatch.setattr(running_cluster, "script_group", script_group)
    return scripts


async def test_a_run_takes_the_size_and_the_rows_from_the_workers_tables(
    joined: SimpleNamespace, tmp_path: Path
) -> None:
    context = context_of(load_config([SCRIPT]), tmp_path)
    expected = load_config(["DIM=64"])
    async with script_cluster(context) as cluster:
        config = cluster.session.config
    assert (config.top_k, config.row_ranges) == (expected.top_k, expected.row_ranges)
    assert context.record.config["top_k"] == expected.top_k
    # A switch that is filled again gets the same rows.
    assert {getattr(row, "ranges", None) for row in initial_rows(config)} == {
        getattr(row, "ranges", None) for row in initial_rows(expected)
    }


async def test_a_size_that_does_not_fit_ends_the_run_before_a_step(
    joined: SimpleNamespace, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=mentions("script", 20_000, "3,584", 64)):
        async with script_cluster(context_of(load_config([SCRIPT, "TOP_K=20000"]), tmp_path)):
            raise AssertionError("the run has begun")


async def test_scripts_that_have_ended_in_a_measured_arm_end_the_run_before_its_profile(
    joined: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_cluster, "prepare", AsyncMock(side_effect=AssertionError("it profiles")))
    monkeypatch.setattr(ScriptSession, "observe", AsyncMock(return_value=ObservedWorkload(5, 9.0)))
    monkeypatch.setattr(ScriptSession, "has_ended", lambda session, arm: arm.name == "offload")
    async with script_cluster(context_of(load_config([SCRIPT]), tmp_path)) as cluster:
        with pytest.raises(RunFailed, match=mentions("script", "arm offload", "measured")):
            await cluster.traffic()
