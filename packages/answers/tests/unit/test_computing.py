"""Computing times of a step in an answer: against simulations of whole clusters that have them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotline_answers.cluster_answer import ask
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.computing import COMPUTE_MS, ComputingEffect, bottleneck_sentences
from hotline_answers.cluster_answer.sizes import MIN_GAIN
from hotline_answers.result import answer, computing_table
from packages.answers.tests.harness.capacities import capacities_of
from switch_harness.wording import says
from tests.harness.cli import invoke

pytestmark = pytest.mark.usefixtures("small_workload")

CLUSTER: dict[str, Any] = {"workers": 8, "servers": 2, "keys_per_step": 300, "top_k": 3000, "dim": 1}


@pytest.fixture(scope="module")
def found(small_workload: None) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ask, "input_effects", lambda *_: ())
        return answer(**CLUSTER)


def test_an_answer_has_a_column_for_each_computing_time(found: Any) -> None:
    assert [each.compute_ms for each in found.computing] == list(COMPUTE_MS)
    table = computing_table(found)
    assert table.columns == ("", "0 ms", "1 ms", "5 ms", "15 ms")
    assert [row[0] for row in table.rows] == [
        "steps/s without", "steps/s with", "gain", "servers busy without",
    ]  # fmt: skip


@pytest.mark.parametrize("compute_ms", COMPUTE_MS[:3])
def test_capacities_with_computing_equal_a_simulation_of_the_whole_cluster(
    found: Any, compute_ms: float
) -> None:
    """Here the simulated part is the whole cluster."""
    [effect] = [each for each in found.computing if each.compute_ms == compute_ms]
    whole = capacities_of(Cluster(**CLUSTER, compute_ms=compute_ms))
    assert (effect.baseline, effect.offload) == pytest.approx(whole, rel=0.05)


def test_longer_computing_of_workers_leaves_servers_idle_and_reduces_the_gain(found: Any) -> None:
    first, *_, last = found.computing
    for name in ("baseline", "offload", "servers_busy", "gain"):
        values = [getattr(each, name) for each in found.computing]
        assert values == sorted(values, reverse=True)
    assert first.gain > 1 + MIN_GAIN and last.gain == pytest.approx(1, abs=MIN_GAIN)
    most = CLUSTER["workers"] / (last.compute_ms / 1000)  # steps/s if nothing but computing took time
    assert 0.9 * most < last.baseline < most


def test_an_answer_for_a_computing_time_has_its_own_column_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "input_effects", lambda *_: ())
    found = answer(**CLUSTER, compute_ms=5)
    [effect] = found.computing
    sides = found.sides
    assert (effect.compute_ms, effect.baseline, effect.offload) == (
        5, sides.baseline.capacity, sides.offload.capacity,
    )  # fmt: skip
    assert effect.gain == pytest.approx(1, abs=0.1)
    assert says(found.headline, "5 ms")


def test_a_negative_computing_time_is_refused() -> None:
    refused = invoke("answer", "--workers", 4, "--servers", 2, "--compute-ms", -1)
    assert refused.exit_code == 2
    assert says(refused.stderr, "compute-ms", "-1.0", "60000")


EFFECTS = st.builds(
    ComputingEffect,
    compute_ms=st.just(1.0),
    baseline=st.just(100.0),
    offload=st.floats(90, 200),
    servers_busy=st.floats(0, 1),
    workers_busy=st.just(1.0),
)


@given(st.lists(EFFECTS, min_size=1, max_size=5))
def test_a_border_of_the_gain_is_named_only_if_all_points_agree(effects: list[ComputingEffect]) -> None:
    first, *border = bottleneck_sentences(effects)
    assert all(f"{100 * each.servers_busy:.0f} %" in first for each in effects)
    gaining = {each.gain >= 1 + MIN_GAIN for each in effects}
    by_fullness = sorted(effects, key=lambda each: each.servers_busy)
    parted = [each.gain >= 1 + MIN_GAIN for each in by_fullness]
    if False not in gaining:
        assert border == []
    elif border:
        idle = [each for each in effects if each.gain < 1 + MIN_GAIN]
        assert parted == sorted(parted)
        assert says(border[0], f"{100 * max(each.servers_busy for each in idle):.0f} %")
    else:
        assert any(
            other.servers_busy <= each.servers_busy
            for each in effects
            for other in effects
            if each.gain < 1 + MIN_GAIN <= other.gain
        )
