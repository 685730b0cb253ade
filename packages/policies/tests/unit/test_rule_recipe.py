"""The rule of CONTRIBUTING's recipe: scored on a log, in a simulated run, and under running workers."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from controller.controller import Controller
from controller.hotset.follower import Follower
from controller.hotset.rules import HotSetRule, PeriodUpdates, find_rule, run_rule, start_rule
from controller.hotset.selection import cold_limit
from controller.tables import KeyState
from foundation.checkout import ROOT
from foundation.compiled import sources
from foundation.logs.time_split import TRAIN_SHARE
from switch_harness.waiting import PATIENCE_S
from tests.harness.cli import invoke, json_of
from tests.harness.livenet import JOB, LiveNet, live
from tests.unit.controller.test_live import check_sums, hotline, states

RULE = "mine.recent"
TOP_K = 30
CONFIG = """
data = "{log}"
workers = 2
servers = 2
top_k = {top_k}
rule = "{rule}"
rounds = 6
loads = [0.5]
arms = ["baseline", "offload"]
block_ms = 2
discard_ms = 1
block_steps = 20
calibration_s = 0.005
profile_lanes = 1500
empty_rpcs = 0
simulate_dedicated_switch = false
runs = "{runs}"
"""


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Write the rule of the recipe, as it stands in CONTRIBUTING.md, into a module on the import path."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## Add a rule for what is hot\n")[2]
    blocks = re.findall(r"^```python\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    (text,) = blocks
    assert 15 <= text.count("\n") <= 20
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "recent.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    sources.cache_clear()
    yield RULE
    for name in ("mine", RULE):  # the next test has another folder, or none
        sys.modules.pop(name, None)


class PlainRecent:
    """The recipe's rule in other words: updates in the present period, with earlier ones halved each time."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.seen: list[dict[int, int]] = []

    def choose(self, period: dict[int, int]) -> list[int]:
        self.seen.append(period)
        scores: dict[int, float] = {}
        for seen in self.seen:
            scores = {key: score / 2 for key, score in scores.items() if score > 1}
            scores |= {key: scores.get(key, 0) + updates for key, updates in seen.items()}
        return sorted(scores, key=lambda key: (-scores[key], key))[: self.size]


def scored(steps: Sequence[Sequence[int]], size: int, period: int) -> dict[str, int]:
    """Return the hits that the recipe's rule has in the second half, loaded and followed."""
    half = round(len(steps) * TRAIN_SHARE)
    loaded = PlainRecent(size).choose(counted(steps[:half]))
    rule, chosen, held, followed_hits = PlainRecent(size), set[int](), set[int](), 0
    for first in range(0, len(steps), period):
        for number, step in enumerate(steps[first : first + period], start=first):
            for key in step:
                followed_hits += number >= half and key in held
                held |= {key} & chosen
        counts = counted(steps[first : first + period])
        assert len(counts) < cold_limit(size, 0)  # so that the rule sees all of them
        chosen = set(rule.choose(dict.fromkeys(chosen, 0) | counts))
        held &= chosen
    hits = sum(key in loaded for step in steps[half:] for key in step)
    return {f"{RULE}-load": hits, f"{RULE}-follow": followed_hits}


def counted(steps: Iterable[Sequence[int]]) -> dict[int, int]:
    keys, counts = np.unique(np.concatenate([*map(np.array, steps)]), return_counts=True)
    return dict(zip(keys.tolist(), counts.tolist(), strict=True))


def test_the_recipes_rule_is_scored_on_a_log(rule: str, log: Path, tmp_path: Path) -> None:
    asked = (log, "--sizes", "10,40", "--period-s", 0.04, "--only", "top-k", "--rule", rule)
    report = json_of("policies", *asked, "--into", tmp_path / "out")
    rows = pl.read_parquet(log).group_by("iteration", maintain_order=True).agg("key")
    steps = [sorted(keys) for keys in rows["key"].to_list()]
    hits = {(each["policy"], each["size"]): each["hits"] for each in report["outcomes"]}
    for size in (10, 40):
        for name, expected in scored(steps, size, report["facts"]["period"]).items():
            assert hits[name, size] == expected > 0
    # The log drifts, which the rule follows.
    assert hits[f"{rule}-follow", 10] > 1.2 * hits[f"{rule}-load", 10]
    assert {name for name, _ in hits} == {"top-k", f"{rule}-load", f"{rule}-follow"}
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"{rule}, followed" in page and f"{rule}, loaded" in page


@pytest.mark.usefixtures("no_page")
def test_results_of_the_recipes_rule_are_reused_until_its_code_changes(
    rule: str, log: Path, tmp_path: Path
) -> None:
    asked = ("policies", log, "--sizes", "10", "--only", "top-k", "--rule", rule, "--into", tmp_path / "out")
    first = json_of(*asked)
    assert json_of(*asked) == first
    choose_coldest(tmp_path)
    changed = json_of(*asked)
    before, after = ({each["policy"]: each for each in report["outcomes"]} for report in (first, changed))
    assert after["top-k"] == before["top-k"]
    for name in (f"{rule}-load", f"{rule}-follow"):
        assert after[name]["hits"] < before[name]["hits"]


def choose_coldest(folder: Path) -> None:
    """Change the rule so that it chooses the least updated keys."""
    file = folder / "mine" / "recent.py"
    text = file.read_text()
    file.write_text(text.replace("(-self.scores[key], key)", "(self.scores[key], key)"))
    assert file.read_text() != text
    sys.modules.pop(RULE, None)


@pytest.mark.parametrize("is_coldest", [False, True])
def test_the_recipes_rule_chooses_the_hot_set_of_a_simulated_run(
    rule: str, log: Path, tmp_path: Path, is_coldest: bool
) -> None:
    if is_coldest:
        choose_coldest(tmp_path)
    config = tmp_path / "run.toml"
    config.write_text(CONFIG.format(log=log, top_k=TOP_K, rule=rule, runs=tmp_path / "runs"))
    result = invoke("simulate", config)
    assert result.exit_code == 0, result.output
    run = tmp_path / "runs" / "latest"
    hot_set = pl.read_parquet(run / "hotset.parquet")
    assert f"chosen by rule {rule}" in result.output
    record = json.loads((run / "run.json").read_text())
    assert record["config"]["rule"] == rule
    # The keys that the rule chooses from the updates that the servers have counted in the profile.
    updates = pl.read_parquet(run / "updates.parquet")
    profiled = (
        updates.filter(pl.col("job") == record["jobs"]["profile"])
        .group_by("key")
        .agg(pl.sum("updates"))
        .sort("key")
    )
    period = PeriodUpdates(
        profiled["key"].to_numpy(), profiled["updates"].to_numpy().astype(np.int64), np.empty(0, np.uint64)
    )
    assert hot_set["key"].to_list() == start_rule(rule, TOP_K).choose(period).tolist()
    assert hot_set.height == TOP_K
    chosen_updates, mean_updates = hot_set["updates"].to_list(), period.updates.mean()
    assert max(chosen_updates) < mean_updates if is_coldest else min(chosen_updates) > mean_updates
    # The switch adds the updates of these keys, and servers those of all others: arms repeat the same steps.
    keys_at_servers = {
        arm: set(updates.filter(pl.col("job") == job, pl.col("updates") > 0)["key"].to_list())
        for arm, job in record["jobs"].items()
    }
    hot_keys = set(hot_set["key"].to_list())
    assert keys_at_servers["offload"] == keys_at_servers["baseline"] - hot_keys
    assert len(keys_at_servers["baseline"] & hot_keys) > TOP_K / 2
    assert f"rule {rule}" in (run / "report.html").read_text()


FIRST, SECOND = range(20), range(100, 120)
"""Keys that workers favour at first, and later."""


class Recording:
    """A rule that records what another rule chooses."""

    def __init__(self, rule: HotSetRule) -> None:
        self._rule = rule
        self.chosen: list[set[int]] = []

    def __call__(self, top_k: int) -> Recording:
        self._chooser = self._rule(top_k)
        return self

    def choose(self, period: PeriodUpdates) -> Sequence[int]:
        keys = [int(key) for key in self._chooser.choose(period)]
        self.chosen.append(set(keys))
        return keys


@live(favours=FIRST)
async def test_follow_moves_the_keys_of_the_recipes_rule_under_running_workers(
    net: LiveNet, rule: str
) -> None:
    """After each period the switch has the keys that the rule gives, and no update is lost."""
    recording = Recording(find_rule(rule))

    async def drift() -> None:
        async with Controller(net.address) as controller:
            follower = Follower(controller, {JOB: run_rule(rule, recording, len(FIRST))})
            for keys in (FIRST, SECOND):
                net.favour(keys)
                while not recording.chosen or recording.chosen[-1] != set(keys):
                    await operations_of_each_worker(net, 10)
                    await follower.period()
                    found = await states(net)
                    assert set(found) == recording.chosen[-1] and set(found.values()) == {KeyState.HOT}

    await asyncio.wait_for(net.work_while(drift()), PATIENCE_S)
    await check_sums(net)


async def operations_of_each_worker(net: LiveNet, number: int) -> None:
    before = [load.operations for load in net.loads]
    while any(load.operations < start + number for load, start in zip(net.loads, before, strict=True)):
        await asyncio.sleep(0.001)


@live(favours=FIRST)
async def test_the_command_follow_takes_the_recipes_rule(net: LiveNet, rule: str) -> None:
    await net.work(40)
    asked = ("follow", "--job", str(JOB), "--top-k", "20", "--rule", rule)
    code, output, errors = await hotline(net, *asked, "--period-s", "0.2", "--periods", "1", "--json")
    assert (code, errors) == (0, "")
    lines = [json.loads(line) for line in output.splitlines()]
    # In the second period there is no update, so the earlier ones still decide.
    assert [(line["rule"], line["period"], line["keys_in"]) for line in lines] == [
        (rule, 0, 20),
        (rule, 1, 0),
    ]
    assert set(await states(net)) == set(FIRST)
