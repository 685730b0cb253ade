"""Sizes of the hot set in answers: each has one capacity, whatever size was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics import MIN_ROUNDS
from hotline_answers.cluster_answer import ask
from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_answers.cluster_answer.cluster import config_for
from hotline_answers.result import answer
from hotline_simulator.config import SimulationConfig
from switch_harness.effort import examples


@pytest.fixture(scope="module", autouse=True)
def few_rounds() -> Iterator[None]:
    """Have answers simulate as few rounds as have an interval."""

    def config_of_few_rounds(*arguments: object) -> SimulationConfig:
        return config_for(*arguments).model_copy(update={"rounds": MIN_ROUNDS})  # type: ignore[arg-type]  # as given

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ask, "config_for", config_of_few_rounds)
        yield


def write_log(folder: Path, keys: int, skew: float, batch: int, seed: int) -> Path:
    """Write 16 mini-batches of draws, whose keys have a Zipf distribution; a skew of 0 is a uniform one."""
    chance, steps = np.random.default_rng(seed), 16
    weights = 1 / np.arange(1, keys + 1) ** skew
    drawn = chance.choice(keys, (steps, batch), p=weights / weights.sum())
    rows = {"iteration": np.repeat(np.arange(steps), batch), "key": drawn.ravel()}
    pl.DataFrame(rows).with_columns(worker=1).unique(maintain_order=True).write_parquet(
        folder / "log.parquet"
    )
    return folder / "log.parquet"


def capacity_by_size(found: ClusterAnswer) -> dict[int, float]:
    return {size.top_k: size.capacity for size in found.sizes}


def gains_by_size(found: ClusterAnswer) -> dict[int, float]:
    """Return the gain of each size that is said anywhere in an answer."""
    [by_memory] = [each for each in found.effects if each.input == "hot keys"]
    others = {int(each.value.replace(",", "")): each.gain for each in by_memory.effects}
    return {found.sides.top_k: found.sides.gain, **others}


@given(
    keys=st.integers(1, 400), skew=st.sampled_from([0.0, 0.8, 1.3]), batch=st.integers(1, 60),
    seed=st.integers(0, 99), servers=st.integers(1, 3), asked=st.lists(st.integers(1, 500), min_size=1),
)  # fmt: skip
@settings(max_examples=examples(24), deadline=None)
def test_the_capacity_of_a_size_does_not_depend_on_the_requested_size(
    keys: int, skew: float, batch: int, seed: int, servers: int, asked: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patched, TemporaryDirectory() as folder:
        # Of the effects of inputs only the row of hot keys stays, which needs no simulation.
        patched.setattr("hotline_answers.cluster_answer.sensitivity._variants", lambda *_: iter(()))
        patched.setattr("hotline_answers.cluster_answer.sensitivity._simulate", lambda *_: 1.0)
        log = write_log(Path(folder), keys, skew, batch, seed)
        answers = [
            answer(workers=4, servers=servers, data=log, dim=1, top_k=top_k) for top_k in (None, *asked[:2])
        ]
    known: dict[int, float] = {}
    for found in answers:
        capacities = capacity_by_size(found)
        for top_k, capacity in capacities.items():
            assert known.setdefault(top_k, capacity) == capacity
        for top_k, gain in gains_by_size(found).items():
            assert gain == pytest.approx(capacities[top_k] / capacities[0], rel=1e-9)
        hot = {top_k: capacity for top_k, capacity in capacities.items() if top_k}
        assert hot[found.best] == max(hot.values())
        assert hot[found.stops_at] >= 0.97 * hot[found.best]
        assert all(
            capacity < 0.97 * hot[found.best] for top_k, capacity in hot.items() if top_k < found.stops_at
        )
        assert min(hot) <= max(1, max(hot) / 100), "sizes far below the requested one are compared"


@pytest.mark.usefixtures("no_input_effects")
def test_a_hot_set_that_no_step_reads_has_no_gain(tmp_path: Path) -> None:
    """Each step has its own keys but for one, and those of the 1,000 hot ones are in a few steps."""
    rows = {"iteration": np.arange(40_000) // 1_000, "worker": np.arange(40_000) // 100 % 10 + 1}
    file = tmp_path / "log.parquet"
    keys = np.where(np.arange(40_000) % 100, np.arange(40_000), 0)
    pl.DataFrame({**rows, "key": keys}).write_parquet(file)
    found = answer(workers=10, servers=2, data=file, top_k=1_000, dim=1)
    assert all(size.served < 0.05 for size in found.sizes)
    assert found.sides.gain == pytest.approx(1, abs=0.05)
    assert any("none makes this cluster carry 3 % more" in sentence for sentence in found.sentences)
    assert "1,000 hot keys" in found.headline
