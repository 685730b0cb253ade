"""Rules of hot sets: how they are found, what they see, and that bad ones get one error and move nothing."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from controller.controller import Controller
from controller.errors import RuleError
from controller.hotset import choice
from controller.hotset.follower import Follower
from controller.hotset.migrate import WAVE
from controller.hotset.rules import (
    PeriodUpdates,
    RunningRule,
    find_rule,
    rule_names,
    run_rule,
    start_rule,
)
from controller.sizes import SLOTS
from controller.tables import HotParam, KeyState
from experiment.errors import ConfigError
from experiment.run_config import load_config
from experiment.variables import VARIABLES
from foundation.designs.registry import NAMES
from foundation.designs.registry import design as find_design
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import MULTIPLIER, lane_of, lanes_of
from switch_harness.effort import seeds
from switch_harness.wording import mentions
from tests.harness.cli import invoke, json_of
from tests.harness.counting_switch import CountingSwitch

JOB, OTHER = 4, 5
TOP_K = 3
KEYS = (1, 2, 3, 4, 7)
"""Keys of the log of `written`, each with as many updates as its number."""


def period_of(updates: dict[int, int], hot: Sequence[int] = ()) -> PeriodUpdates:
    keys = sorted(updates)
    return PeriodUpdates(
        np.array(keys, np.uint64),
        np.array([updates[key] for key in keys], np.int64),
        np.array(hot, np.uint64),
    )


def written(folder: Path) -> Path:
    path = folder / "counts.csv"
    path.write_text("key,updates\n" + "".join(f"{key},{key}\n" for key in KEYS))
    return path


class Recorded:
    """A rule that chooses by a function, and records what it has seen and chosen."""

    def __init__(self, choose: Callable[[PeriodUpdates, int], Sequence[int]]) -> None:
        self._choose = choose
        self.top_k = 0
        self.seen: list[dict[int, int]] = []
        self.hot: list[set[int]] = []
        self.chosen: list[list[int]] = []

    def __call__(self, top_k: int) -> Recorded:
        self.top_k = top_k
        return self

    def choose(self, period: PeriodUpdates) -> Sequence[int]:
        self.seen.append(dict(zip(period.keys.tolist(), period.updates.tolist(), strict=True)))
        self.hot.append(set(period.hot.tolist()))
        self.chosen.append(list(self._choose(period, self.top_k)))
        return self.chosen[-1]


def least_updated(period: PeriodUpdates, top_k: int) -> Sequence[int]:
    keys: list[int] = period.keys[np.lexsort((period.keys, period.updates))][:top_k].tolist()
    return keys


# -- bad rules

BAD_RULES = {
    "raises": (r"raise KeyError('no\nsuch key')", "KeyError", r"no\nsuch key", "bad.py, line 7"),
    "raises nothing to read": ("raise ValueError", "ValueError", "bad.py, line 7"),
    "exits": ("raise SystemExit(0)", "SystemExit: 0", "bad.py, line 7"),
    "raises in a library": ("return numpy.stack([])", "ValueError", "bad.py, line 7"),
    "returns None": ("return None", "NoneType None", "integer"),
    "returns a text": ("return '123'", "str '123'", "integer"),
    "returns a set": ("return {1}", "set {1}", "sequence or array"),
    "returns a generator": ("return (key for key in (1,))", "generator", "sequence or array"),
    "returns floats": ("return [1.0]", "list [1.0]", "integer", "float 1.0"),
    "returns booleans": ("return [True]", "list [True]", "integer", "bool True"),
    "returns texts": ("return ['1']", "list ['1']", "integer", "str '1'"),
    "returns an array of floats": ("return period.keys / 1", "integer", "float64", "(5,)"),
    "returns a mask": ("return period.keys > 2", "integer", "bool", "(5,)"),
    "returns a table": ("return period.keys[None]", "uint64", "(1, 5)"),
    "returns a negative key": ("return [-1]", "key -1", "0 to 2^64 - 1"),
    "returns a negative array": ("return numpy.array([-1])", "key -1", "0 to 2^64 - 1"),
    "returns a huge key": ("return [2**64]", "key 18446744073709551616", "0 to 2^64 - 1"),
    "returns an unknown key": ("return [7, 5]", "key 5", "period.keys"),
    "returns a key twice": ("return [2, 7, 2]", "key 2 ", "distinct"),
    "returns too many keys": ("return period.keys", "5 keys", "at most 3"),
}
"""Body of `choose`, and what the message has: values, places and what was expected."""
BAD_MODULES = {
    "does not start": ("def RULE(top_k):\n    return {}[top_k]", "KeyError: 3", "bad.py, line 2"),
    "takes nothing": ("def RULE():\n    pass", "TypeError", "RULE()"),
    "returns no chooser": ("def RULE(top_k):\n    return [1]", "list [1]", "choose(period)"),
    "is no rule": ("RULE = 5", "bad:RULE", "int 5", "class or function"),
    "is not there": ("", "bad:RULE", "AttributeError"),
    "does not parse": ("RULE = (", "bad:RULE", "SyntaxError", "line 1"),
    "fails at its import": ("1 / 0", "bad:RULE", "ZeroDivisionError", "bad.py, line 1"),
}
"""Text of a module, and what the message has."""
RULE_TEXT = """import numpy

class RULE:
    def __init__(self, top_k):
        self.top_k = top_k
    def choose(self, period):
        {body}
"""


def add_module(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)


def check_message(message: str, expected: Sequence[str]) -> None:
    assert "bad:RULE" in message and message.count("\n") <= message.endswith("\n")
    assert [text for text in expected if text not in message] == [], message


@pytest.mark.parametrize("case", BAD_RULES)
async def test_a_bad_choice_gets_one_error_and_moves_nothing(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, *expected = BAD_RULES[case]
    add_module("bad", RULE_TEXT.format(body=body), tmp_path, monkeypatch)
    output = tmp_path / "hot.parquet"
    asked = ("hotset", "build", written(tmp_path), "--top-k", TOP_K, "-o", output, "--rule", "bad:RULE")
    result = invoke(*asked)
    assert (result.exit_code, result.stdout) == (1, "")
    check_message(result.stderr, expected)
    assert not output.exists()
    # Beside a bad rule a good one does not move keys either: all choices come first.
    net = CountingSwitch(JOB, OTHER)
    for key in KEYS:
        net.update(JOB, key, times=key)
        net.update(OTHER, key, times=key)
    rules = {OTHER: run_rule("good", Recorded(least_updated), TOP_K), JOB: start_rule("bad:RULE", TOP_K)}
    with pytest.raises(RuleError) as caught:
        await Follower(cast(Controller, net), rules).period()
    check_message(str(caught.value), expected)
    assert net.params == {}


@pytest.mark.parametrize("case", BAD_MODULES)
def test_a_rule_that_cannot_start_is_refused_before_anything_begins(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, *expected = BAD_MODULES[case]
    add_module("bad", text, tmp_path, monkeypatch)
    log, output = written(tmp_path), tmp_path / "hot.parquet"
    result = invoke("hotset", "build", log, "--top-k", TOP_K, "-o", output, "--rule", "bad:RULE")
    assert (result.exit_code, result.stdout, output.exists()) == (1, "", False)
    check_message(result.stderr, expected)
    result = invoke("follow", "--job", JOB, "--top-k", TOP_K, "--rule", "bad:RULE", "--switch", "127.0.0.1:1")
    assert (result.exit_code, result.stdout) == (1, "")
    check_message(result.stderr, expected)
    with pytest.raises(ConfigError) as caught:
        load_config(["RULE=bad:RULE", f"TOP_K={TOP_K}"])
    check_message(str(caught.value), expected)


@pytest.mark.parametrize(
    "name", ["nonesuch", "", "top_k", "RULE", ":", "..", "nonesuch.module", "nonesuch:RULE"]
)
def test_an_unknown_rule_is_one_error_that_names_the_rule(name: str) -> None:
    with pytest.raises(RuleError) as caught:
        find_rule(name)
    assert repr(name) in str(caught.value) and "\n" not in str(caught.value)


# -- how rules are found, and where they are refused


def test_installed_rules_are_found_the_defaults_first() -> None:
    names = rule_names()
    assert names[:2] == ("top-k", "window") and len(set(names)) == len(names)
    assert all(callable(find_rule(name)) for name in names)


def test_a_module_is_named_with_its_attribute_or_has_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = RULE_TEXT.format(body="return period.keys[: self.top_k]")
    package = tmp_path / "rules_of_mine"
    package.mkdir()
    add_module("first", text + "\nother = RULE\n", package, monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    for name in (
        "rules_of_mine.first",
        "rules_of_mine.first:RULE",
        "rules_of_mine.first:other",
        "first:RULE",
    ):
        found = start_rule(name, 2).choose(period_of({5: 1, 9: 4, 6: 1}))
        assert found.tolist() == [5, 6]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_a_rule_only_if_its_design_prepares_a_hot_set(name: str) -> None:
    asked = [f"DESIGN={name}", f"RULE={'window'}"]
    if find_design(name).preparation is None:
        with pytest.raises(ConfigError, match=mentions("window", name)):
            load_config(asked)
    else:
        assert load_config(asked).rule == "window"
    assert VARIABLES["RULE"].setting == "rule" and load_config([f"DESIGN={name}"]).rule == "top-k"


def test_options_of_the_window_are_refused_with_another_rule() -> None:
    asked = ("follow", "--job", JOB, "--top-k", TOP_K, "--rule", "top-k")
    for option, value in (("--margin", 2), ("--max-moves", 7)):
        result = invoke(*asked, option, value)
        assert result.exit_code == 2 and option in result.stderr and "top-k" in result.stderr


# -- what a rule sees


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(0, 60), min_size=1, max_size=12),
    st.sampled_from([1_000, 40, 7]),
)
def test_updates_without_an_order_are_spread_evenly(updates: dict[int, int], limit: int) -> None:
    """In an order by exact fractions; every key has its updates, or its share of the sample."""
    period = period_of(updates)
    total = sum(updates.values())
    share = min(Fraction(1), Fraction(limit, max(total, 1)))
    times = []
    for index, key in enumerate(period.keys.tolist()):
        phase = Fraction((key * MULTIPLIER % 2**64 >> 11), 2**53)
        rate, number = updates[key] * share, 0
        while number + phase < rate:
            times.append(((number + phase) / rate, index))
            number += 1
    found = period.in_order(limit).tolist()
    # Floating point may exchange neighbours at the same time, and lose an update at the very end.
    expected = Counter(index for _, index in times)
    assert all(abs(Counter(found)[index] - expected[index]) <= (share < 1) for index in range(len(updates)))
    if share == 1:
        assert Counter(found) == Counter(dict(enumerate(period.updates.tolist()))) or total == 0
        positions = {index: [time for time, each in sorted(times) if each == index] for _, index in times}
        in_time = [positions[index].pop(0) for index in found]
        assert all(later - earlier > -1e-9 for earlier, later in pairwise(in_time))


def test_a_log_in_time_is_shown_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log.csv"
    log.write_text("iteration,worker,key,job\n2,1,5,1\n1,2,8,1\n1,1,9,1\n1,1,8,1\n1,1,7,2\n")
    in_order = "[int(period.keys[index]) for index in period.order]"
    text = RULE_TEXT.format(body=f"assert {in_order} == [8, 9, 8, 5]; return {in_order}[-1:]")
    add_module("last_update", text, tmp_path, monkeypatch)
    output = tmp_path / "hot.parquet"
    asked = ("hotset", "build", log, "--job", 1, "--top-k", 2, "-o", output, "--rule", "last_update:RULE")
    printed = json_of(*asked)
    assert (printed["rule"], printed["keys"], printed["updates"]) == ("last_update:RULE", 1, 1)
    assert pl.read_parquet(output).rows() == [(1, 5, 1, 0.25, 1, lane_of(5))]
    # Of more updates than a limit only the counts are shown.
    monkeypatch.setattr(choice, "MAX_ORDERED", 3)
    result = invoke(*asked)
    assert result.exit_code == 1 and "NoneType" in result.stderr


def test_a_hot_set_has_keys_in_the_order_of_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_module("some", RULE_TEXT.format(body="return [2, 7, 1]"), tmp_path, monkeypatch)
    hot_set = choice.build([written(tmp_path)], TOP_K, rule="some:RULE")
    assert hot_set.select("rank", "key", "updates").rows() == [(1, 2, 2), (2, 7, 7), (3, 1, 1)]
    with pytest.raises(RuleError, match=mentions(5, "chose")):
        add_module("none", RULE_TEXT.format(body="return []"), tmp_path, monkeypatch)
        choice.build([written(tmp_path)], TOP_K, rule="none:RULE")
    with pytest.raises(RuleError, match=mentions("--scheduler", "leave")):
        choice.build([written(tmp_path)], TOP_K, rule="some:RULE", scheduler="tcp://127.0.0.1:1")


@given(st.dictionaries(st.integers(0, 500), st.integers(1, 9), min_size=1), st.integers(1, 30))
def test_the_rule_top_k_is_the_default(
    tmp_path_factory: pytest.TempPathFactory, updates: dict[int, int], top_k: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    pl.DataFrame({"key": list(updates), "updates": list(updates.values())}).write_parquet(path)
    by_rule = choice.build([path], top_k, rule="controller.hotset.selection:TopKRule")
    # Polars divides by one total, or multiplies by its reciprocal: the last bit may differ.
    assert_frame_equal(by_rule, choice.build([path], top_k), rel_tol=1e-15, abs_tol=0)


# -- `hotline follow` with a rule


async def followed(
    net: CountingSwitch, rules: dict[int, Recorded], top_k: int, periods: int, seed: int
) -> None:
    """Follow, and check in each period what rules see, and that the switch has the keys that they chose."""
    chance = np.random.default_rng(seed)
    running: dict[int, RunningRule] = {job: run_rule("recorded", rule, top_k) for job, rule in rules.items()}
    follower = Follower(cast(Controller, net), running)
    for number in range(periods):
        expected, hot = {}, {}
        for job in rules:
            keys, counts = np.unique(chance.integers(0, 4_000, 6_000) ** 2 % 4_000_037, return_counts=True)
            for key, times in zip(keys.tolist(), counts.tolist(), strict=True):
                net.update(job, key, times)
            hot[job] = set(net.hot(job))
            expected[job] = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        found = {period.job: period for period in await follower.period()}
        for job, rule in rules.items():
            seen = {key: expected[job].get(key, 0) for key in hot[job]}
            assert rule.hot[-1] == hot[job] and seen.items() <= rule.seen[-1].items()
            cold = {key: updates for key, updates in expected[job].items() if key not in hot[job]}
            shown = {key: updates for key, updates in rule.seen[-1].items() if key not in hot[job]}
            assert shown.items() <= cold.items()
            assert len(shown) == min(len(cold), top_k - len(hot[job]) + 2 * WAVE)
            assert min(shown.values()) >= max(
                [each for key, each in cold.items() if key not in shown], default=0
            )
            assert set(net.hot(job)) == set(rule.chosen[-1])
            assert found[job].keys_in == len(set(rule.chosen[-1]) - hot[job])
            assert found[job].keys_out == len(hot[job] - set(rule.chosen[-1]))
            assert found[job].updates == (None if number == 0 else sum(expected[job].values()))
            assert len(rule.chosen) == number + 1


@pytest.mark.parametrize("seed", seeds(3))
async def test_the_switch_has_the_keys_that_rules_choose(seed: int) -> None:
    def some(period: PeriodUpdates, top_k: int) -> Sequence[int]:
        chosen: list[int] = np.random.default_rng(len(period.keys)).permutation(period.keys)[:top_k].tolist()
        return chosen

    net = CountingSwitch(JOB, OTHER)
    await followed(net, {JOB: Recorded(least_updated), OTHER: Recorded(some)}, 40, 4, seed)


async def test_an_existing_set_stays_in_the_first_period_and_may_then_be_emptied() -> None:
    net = CountingSwitch(JOB)
    await net.load(JOB, [8, 9])
    net.update(JOB, 8)
    rule = Recorded(lambda period, top_k: [])
    follower = Follower(cast(Controller, net), {JOB: run_rule("none", rule, TOP_K)})
    await follower.period()
    assert set(net.hot(JOB)) == {8, 9} and rule.chosen == []
    net.update(JOB, 9)
    await follower.period()
    assert net.hot(JOB) == [] and rule.seen == [{8: 0, 9: 1}]


async def test_the_first_keys_of_a_choice_get_the_slots_of_their_lane() -> None:
    """A lane has 4 slots: of keys that are all of one lane, the four most wanted move in."""
    lane = [key for key in range(4_000) if lane_of(key) == 0][:9]
    others = [key for key in range(4_000) if lane_of(key) == 1][:2]
    net = CountingSwitch(JOB)
    for key in (*lane, *others):
        net.update(JOB, key)
    rule = Recorded(lambda period, top_k: [*reversed(lane), *others])
    follower = Follower(cast(Controller, net), {JOB: run_rule("full", rule, 20)})
    # Another job without a quota, which cannot give slots back, has all but four of the lane.
    keys = np.arange(200_000, dtype=np.uint64)
    for slot, key in enumerate(keys[lanes_of(keys) == 0][-(SLOTS - 4) :].tolist()):
        net.params[OTHER, key] = HotParam(OTHER, key, 0, slot, KeyState.HOT)
    await follower.period()
    assert sorted(net.hot(JOB)) == sorted([*lane[-4:], *others])


def test_a_rule_may_keep_keys_of_earlier_periods() -> None:
    seen: list[Keys] = []

    class Earlier:
        def choose(self, period: PeriodUpdates) -> Any:
            seen.append(period.keys)
            return seen[0]

    running = run_rule("earlier", lambda top_k: Earlier(), 2)
    assert running.choose(period_of({3: 1, 4: 1})).tolist() == [3, 4]
    assert running.choose(period_of({5: 1})).tolist() == [3, 4]
