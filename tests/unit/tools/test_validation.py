"""How far simulations are off: errors, scores and misses of claims, and the configurations that are run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli

from analysis.summary import read_summary
from experiment.run_config import Config, config_of
from switch_harness.wording import mentions
from tools.evidence.result import EvidenceError
from tools.evidence.stages.validation import CONFIGURATIONS, VALIDATION, run_toml, step_name
from tools.evidence.validation import (
    CAPACITY,
    CLAIMS,
    LATENCY,
    PACKETS,
    SERVER_CPU,
    TRANSFER_CHANGE,
    WORKER_CPU_CHANGE,
    Prediction,
    predictions_of,
    score,
    scores,
)

RECORDED = Path(__file__).parent / "evidence" / "validation"
RUNS = {name: RECORDED / step_name(name) / "runs" / "latest" for name in CONFIGURATIONS}


def prediction(run: str, predicted: float, measured: float, half_width: float | None = None) -> Prediction:
    low, high = (None, None) if half_width is None else (measured - half_width, measured + half_width)
    return Prediction(run, "metric", predicted, measured, low, high, predicted - measured)


@pytest.mark.parametrize("name", CONFIGURATIONS)
class TestConfigurations:
    def test_a_configuration_of_the_validation_is_a_valid_run(self, name: str) -> None:
        """Its file sets what its row says, two arms of its design, and rounds enough for a simulation."""
        config = config_of(Config, tomli.loads(run_toml(name)))
        assert config.simulate_dedicated_switch and (config.rounds or 0) >= 6 and len(config.arms) == 2
        assert 2 <= config.workers <= 16 and 1 <= config.servers <= 4 and len(config.loads) == 1
        for path, value in CONFIGURATIONS[name].items():
            found: Any = config
            for field in path.split("."):
                found = getattr(found, field)
            assert found == value
            default: Any = config_of(Config, {})
            for field in path.split("."):
                default = getattr(default, field)
            assert default != value

    def test_predictions_and_measurements_are_read_from_the_runs_record(self, name: str) -> None:
        raw = json.loads((RUNS[name] / "summary.json").read_text())
        load = raw["virtual"]["load"]
        arms = ["collect-baseline", "collect"] if name == "`collect`" else ["baseline", "offload"]
        differences, shared = raw["loads"][load]["differences"][arms[1]], raw["virtual"]["shared"]
        found = predictions_of(name, read_summary(RUNS[name]))
        for claim, metrics in {
            PACKETS: ["ps_packets_per_step"], SERVER_CPU: ["ps_cpu_us_per_step"],
            WORKER_CPU_CHANGE: ["worker_cpu_us_per_step"], TRANSFER_CHANGE: ["pull_mean", "push_mean"],
        }.items():  # fmt: skip
            for each, metric in zip(found[claim], metrics, strict=True):
                of_run = differences[metric]
                expected = [100 * ratio for ratio in (shared[metric]["ratio"], of_run["ratio"])]
                assert [each.predicted, each.measured] == pytest.approx(expected)
                assert each.error == pytest.approx(expected[0] - expected[1])
                assert [each.low, each.high] == pytest.approx(
                    [100 * of_run["ratio_low"], 100 * of_run["ratio_high"]]
                )
        levels = [(metric, side) for metric in ("pull_mean", "push_mean") for side in ("reference", "value")]
        for each, (metric, side) in zip(found[LATENCY], levels, strict=True):
            assert (each.predicted, each.measured) == (shared[metric][side], differences[metric][side])
            assert each.error == pytest.approx(100 * each.predicted / each.measured - 100)
        [capacity] = found[CAPACITY]
        measured = [raw["capacity"], *(check["capacity"] for check in raw["capacity_checks"])]
        assert capacity.measured == pytest.approx(np.mean([each[arms[1]] for each in measured]))
        assert capacity.predicted == raw["virtual"]["shared_capacity"][arms[1]]


def test_each_configuration_has_a_step_and_the_default_is_among_a_dozen() -> None:
    assert len(CONFIGURATIONS) >= 12 and CONFIGURATIONS["default"] == {}
    names = [step_name(name) for name in CONFIGURATIONS]
    assert len(set(names)) == len(names) == len(VALIDATION.steps)
    for step, name in zip(VALIDATION.steps, CONFIGURATIONS, strict=True):
        [(file, text)] = step.files
        assert (step.name, file) == (step_name(name), "run.toml")
        assert tomli.loads(text) == {"runs": "{folder}/runs", **tomli.loads(run_toml(name))}


def test_a_changed_setting_overrides_the_configuration() -> None:
    changed = tomli.loads(run_toml("load 0.8", rounds=6, loads=(0.3,)))
    assert (changed["rounds"], changed["loads"]) == (6, [0.3])


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_the_statistics_of_scipy(seed: int) -> None:
    """Errors of a run are averaged before the interval, since they depend on one another."""
    from scipy import stats  # here, so that one process of the tests spends 0.8 s on it, not all

    rng = random.Random(seed)
    found, errors = [], []
    for run in range(rng.randint(2, 20)):
        of_run = [rng.gauss(1, 4) for _ in range(rng.randint(1, 4))]
        errors.append(of_run)
        for error in of_run:
            measured = rng.gauss(0, 10)
            found.append(prediction(f"{run}", measured + error, measured, rng.choice([None, 1.0, 20.0])))
    scored = score(SERVER_CPU, found)
    means = [np.mean(each) for each in errors]
    low, high = stats.t.interval(0.95, len(means) - 1, np.mean(means), stats.sem(means))
    assert [scored.bias.value, scored.bias.low, scored.bias.high] == pytest.approx(
        [np.mean(means), low, high]
    )
    flat = np.concatenate(errors)
    assert scored.predictions == len(flat) and scored.spread == pytest.approx(np.std(flat, ddof=1))
    beyond = np.abs(flat) > SERVER_CPU.goal
    assert scored.within_goal == pytest.approx(1 - beyond.mean())
    assert len(scored.misses) == sum(bool((np.abs(each) > SERVER_CPU.goal).any()) for each in errors)
    assert scored.is_met == (not beyond.any() and low <= 0 <= high)
    signs = [
        np.sign(each.predicted) == np.sign(each.measured)
        for each in found
        if each.low is not None and each.high is not None and (each.low > 0 or each.high < 0)
    ]
    assert scored.signs == (sum(signs), len(signs))


def test_misses_are_named_with_their_errors_and_nine_of_ten_may_be_enough() -> None:
    errors = [*[5.0] * 18, -16.0, 22.4]
    found = [prediction(f"run {number}", 100 + error, 100) for number, error in enumerate(errors)]
    scored = score(LATENCY, found)
    assert scored.misses == ("run 18 (-16)", "run 19 (+22)")
    assert scored.is_met and scored.signs is None
    assert not score(LATENCY, [*found[1:], prediction("run 20", 84, 100)]).is_met
    assert not score(CAPACITY, found).is_met


def test_the_largest_error_of_a_run_is_named_once() -> None:
    found = [
        prediction(run, 100 + error, 100)
        for run, errors in {"a": (16, -30, 20), "b": (1, 2, 3)}.items()
        for error in errors
    ]
    assert score(LATENCY, found).misses == ("a (-30)",)


def test_small_errors_of_one_sign_miss_only_goals_that_allow_no_bias() -> None:
    found = [prediction(f"run {number}", 1 + number / 100, 0) for number in range(10)]
    scored = score(SERVER_CPU, found)
    assert scored.within_goal == 1 and not scored.is_met
    assert score(WORKER_CPU_CHANGE, found).is_met


def test_one_prediction_has_no_spread() -> None:
    with pytest.raises(EvidenceError, match=mentions(SERVER_CPU.title, "1")):
        score(SERVER_CPU, [prediction("run", 1, 2)])


def test_a_run_without_a_simulation_is_named() -> None:
    summary = read_summary(RUNS["default"]).model_copy(update={"virtual": None})
    with pytest.raises(EvidenceError, match=mentions("default", "simulation")):
        predictions_of("default", summary)


def test_every_claim_is_scored_over_all_configurations() -> None:
    found = [*scores({name: read_summary(run) for name, run in RUNS.items()})]
    assert [each.claim for each in found] == [*CLAIMS]
    per_run = {PACKETS: 1, SERVER_CPU: 1, WORKER_CPU_CHANGE: 1, TRANSFER_CHANGE: 2, LATENCY: 4, CAPACITY: 1}
    assert [each.predictions for each in found] == [per_run[claim] * len(RUNS) for claim in CLAIMS]
