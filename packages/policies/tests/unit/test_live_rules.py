"""Policies as rules of live hot sets: the keys that they hold, what is refused, and scores of rules."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from controller.controller import Controller
from controller.errors import RuleError
from controller.hotset.follower import Follower
from controller.hotset.rules import PeriodUpdates, find_rule, rule_names, run_rule, start_rule
from foundation.errors import HotlineError
from hotline_policies import policy
from hotline_policies.log import PULL, PolicyLog
from hotline_policies.replay import replay
from hotline_policies.rules import BY_NAME, names_of_rule, spec_named
from hotline_policies.rules.selected import spec_of_follow, spec_of_load
from packages.policies.tests.unit.reference_policies import REFERENCES, ReferenceCache, ReferencePeriodicSet
from packages.policies.tests.unit.test_rules import random_log
from switch_harness.effort import seeds
from tests.harness.cli import invoke, json_of
from tests.harness.counting_switch import CountingSwitch

REFUSED = {"belady": "future", "look-ahead": "future", "p4-lru": "data plane", "first-come": "data plane"}
"""Policies that cannot choose live hot sets, and a word of the reason."""
CHOOSING = [name for name in BY_NAME if name not in REFUSED]
CACHES = [name for name in CHOOSING if BY_NAME[name].warms_up and name != "window"]
JOB = 4


def period_of(log: PolicyLog, first: int, end: int, hot: Sequence[int], *, is_ordered: bool) -> PeriodUpdates:
    """Return what a rule sees of some steps of a log without pulls."""
    accesses = log.accesses[log.starts[first] : log.starts[end]]
    indexes, order, counts = np.unique(accesses, return_inverse=True, return_counts=True)
    keys = np.union1d(log.keys[indexes], np.array(hot, np.uint64))
    updates = np.zeros(len(keys), np.int64)
    updates[np.searchsorted(keys, log.keys[indexes])] = counts
    in_time = np.searchsorted(keys, log.keys[indexes])[order].astype(np.uint32)
    return PeriodUpdates(keys, updates, np.array(hot, np.uint64), in_time if is_ordered else None)


def test_every_policy_is_an_installed_rule() -> None:
    assert set(rule_names()) >= set(BY_NAME)


@pytest.mark.parametrize("name", REFUSED)
def test_policies_that_no_live_run_can_use_say_why(name: str, tmp_path: Path) -> None:
    with pytest.raises(RuleError, match=f"^rule {name} .*{REFUSED[name]}"):
        start_rule(name, 10)
    log = tmp_path / "log.csv"
    log.write_text("iteration,worker,key\n1,1,2\n2,1,2\n3,1,2\n4,1,2\n")
    for command in (
        ("policies", log, "--into", tmp_path / "out"),
        ("hotset", "build", log, "-o", tmp_path / "h"),
    ):
        asked = (*command, "--rule", name, *(("--top-k", 2) if command[0] == "hotset" else ()))
        result = invoke(*asked)
        assert result.exit_code == 1 and f"rule {name} " in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "h").exists()


class Indexes:
    """The index by which a live policy knows each key: by the key's first period, and by key in a period."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}

    def accesses(self, period: PeriodUpdates) -> list[int]:
        for key in period.keys.tolist():
            self.of.setdefault(key, len(self.of))
        return [self.of[int(period.keys[index])] for index in period.in_order()]

    def keys_held(self, reference: ReferenceCache) -> list[int]:
        """Return the keys that would hit, or that a periodic reference has selected."""
        if isinstance(reference, ReferencePeriodicSet):
            return [key for key, index in self.of.items() if index in reference.pending]
        # Faster than `deepcopy`, which takes most of the time of these tests.
        state = pickle.dumps(reference)
        return [key for key, index in self.of.items() if pickle.loads(state).serve(index)]


def serve(reference: ReferenceCache, accesses: Iterable[int]) -> None:
    for access in accesses:
        reference.serve(access)
    reference.end_period()


NO_LOG = cast(PolicyLog, None)
"""The log of references that know no future."""


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("name", CACHES)
def test_a_cache_chooses_the_keys_that_its_reference_holds(name: str, is_ordered: bool) -> None:
    """After each period, in the order of a log, or in the order in which counts are spread."""
    log, size, hot = random_log(300), 12, list[int]()
    rule, reference, indexes = start_rule(name, size), REFERENCES[name](NO_LOG, size), Indexes()
    for first in range(0, log.steps, 27):
        period = period_of(log, first, min(first + 27, log.steps), hot, is_ordered=is_ordered)
        serve(reference, indexes.accesses(period))
        hot = rule.choose(period).tolist()
        assert sorted(hot) == sorted(indexes.keys_held(reference))
        assert len(hot) == size or name in ("lirs", "heavykeeper")
        updates = dict(zip(period.keys.tolist(), period.updates.tolist(), strict=True))
        assert hot == sorted(hot, key=lambda key: (-updates.get(key, 0), key))


def test_a_policy_without_spare_keys_starts_anew_with_the_keys_in_the_switch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(policy, "_SPARE_KEYS", 0)
    rule, size = start_rule("lru", 3), 3
    periods = [{1: 1, 2: 1}, {3: 1, 4: 1}, {5: 1, 6: 1}]  # room for twice the two keys of the first period
    hot, served = list[int](), list[int]()
    for number, updates in enumerate(periods):
        keys = np.union1d(np.array(list(updates), np.uint64), np.array(hot, np.uint64))
        counts = np.array([updates.get(key, 0) for key in keys.tolist()], np.int64)
        period = PeriodUpdates(keys, counts, np.array(hot, np.uint64))
        if number == 2:
            served = list(hot)
        served += keys[period.in_order()].tolist()
        hot = rule.choose(period).tolist()
        assert sorted(hot) == sorted(list(dict.fromkeys(reversed(served)))[:size])


@pytest.mark.parametrize("name", [name for name in CHOOSING if not BY_NAME[name].warms_up])
def test_a_fixed_set_is_chosen_in_the_first_period(name: str) -> None:
    log = random_log(301)
    rule = BY_NAME[name](9)
    period = period_of(log, 0, 30, (), is_ordered=False)
    first = list(rule.choose(period))
    assert len(first) == 9 and set(first) <= set(period.keys.tolist())
    assert list(rule.choose(period_of(log, 30, 60, first, is_ordered=False))) == first
    if name == "top-k":
        assert first == start_rule(name, 9).choose(period).tolist()


# -- scores


def with_pulls(log: PolicyLog, seed: int) -> PolicyLog:
    is_pull = np.random.default_rng(seed).random(len(log.accesses)) < 0.3
    return replace(log, accesses=log.accesses | np.where(is_pull, PULL, 0).astype(np.uint32), has_pulls=True)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize(("rule", "built_in"), [("top-k-load", "top-k"), ("window-follow", "window")])
def test_a_rule_of_the_core_is_scored_as_the_policy_of_its_name(rule: str, built_in: str, seed: int) -> None:
    log = with_pulls(random_log(400 + seed), seed)
    for size in (3, 20):
        found, expected = (replay(log, spec_named(name), (size,), 9) for name in (rule, built_in))
        assert found.hits.tolist() == expected.hits.tolist() and found.hits.any()
        assert found.moves.tolist() == expected.moves.tolist()


class RecordingRule:
    """A rule that records what another rule sees and chooses."""

    def __init__(self, name: str) -> None:
        self._rule = find_rule(name)
        self.seen: list[tuple[list[int], list[int], set[int]]] = []
        self.chosen: list[list[int]] = []
        self.orders: list[list[int] | None] = []

    def __call__(self, top_k: int) -> RecordingRule:
        self._chooser = self._rule(top_k)
        return self

    def choose(self, period: PeriodUpdates) -> Sequence[int]:
        self.seen.append((period.keys.tolist(), period.updates.tolist(), set(period.hot.tolist())))
        self.chosen.append([int(key) for key in self._chooser.choose(period)])
        self.orders.append(None if period.order is None else period.keys[period.order].tolist())
        return self.chosen[-1]


@pytest.mark.parametrize("name", CHOOSING)
async def test_a_live_rule_sees_and_chooses_the_same_keys_as_in_the_replay(name: str) -> None:
    log, size, steps = random_log(500), 15, 20
    live, offline = RecordingRule(name), RecordingRule(name)
    replay(log, spec_of_follow(name, offline), (size,), steps)
    net = CountingSwitch(JOB)
    follower = Follower(cast(Controller, net), {JOB: run_rule(name, live, size)})
    for first in range(0, log.steps, steps):
        for access in log.accesses[log.starts[first] : log.starts[first + steps]]:
            net.update(JOB, int(log.keys[access]))
        await follower.period()
        assert set(net.hot(JOB)) == set(live.chosen[-1])
    assert live.seen == offline.seen and live.chosen == offline.chosen and len(live.seen) == 4
    assert live.orders == offline.orders == [None] * 4


def test_a_loaded_rule_sees_the_updates_of_the_first_part_in_their_order() -> None:
    log, rule = with_pulls(random_log(600), seed=1), RecordingRule("top-k")
    spec_of_load("top-k", rule).make(log, (5,))
    accesses = log.accesses[: log.training_accesses]
    assert rule.orders == [log.keys[accesses[accesses < PULL]].tolist()]
    (keys, updates, hot), counts = rule.seen[0], Counter(rule.orders[0])
    assert dict(zip(keys, updates, strict=True)) == counts and hot == set()


@pytest.mark.usefixtures("no_page")
def test_a_compiled_policy_of_another_module_is_scored_as_a_policy_and_as_a_rule(
    log: Path, tmp_path: Path
) -> None:
    module = "hotline_policies.rules.recency:LRU"
    asked = ("--sizes", 40, "--only", "lru", "--rule", "lru", "--rule", module, "--into", tmp_path / "out")
    hits = {each["policy"]: each["hits"] for each in json_of("policies", log, *asked)["outcomes"]}
    for use in ("", "-load", "-follow"):
        assert hits[f"{module}{use}"] == hits[f"lru{use}"] > 0
    assert len(hits) == 6


def test_names_of_policies_of_rules() -> None:
    assert names_of_rule("window") == ("window-load", "window-follow")
    assert names_of_rule("lru") == ("lru", "lru-load", "lru-follow")
    assert spec_named("lru") is BY_NAME["lru"]
    module = "hotline_policies.rules.recency:LRU"
    assert names_of_rule(module) == (module, f"{module}-load", f"{module}-follow")
    assert spec_named(module).make is BY_NAME["lru"].make
    for name in ("nonesuch", "nonesuch-load", "lru-nonesuch", "controller.hotset.selection:TopKRule"):
        with pytest.raises(HotlineError, match=re.escape(name.removesuffix("-load"))):
            spec_named(name)
