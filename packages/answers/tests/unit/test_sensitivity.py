"""The effects of other inputs: against simulations of whole clusters, and changes of a log's mini-batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hotline_answers.cluster_answer import sensitivity
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_answers.cluster_answer.sensitivity import (
    _flatten,
    _halve,
    _merge_pairs,
    _variants,
    input_effects,
)
from hotline_answers.result import answer, effects_table
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts
from packages.answers.tests.harness.capacities import capacities_of
from switch_harness.wording import says_in_one_line
from tests.harness.cli import invoke
from tests.harness.traces import trace_of

pytestmark = pytest.mark.usefixtures("small_workload")

INPUTS = {"skew", "keys a step", "costs of hosts", "servers", "hot keys"}
CLUSTER: dict[str, Any] = {"workers": 8, "servers": 2, "keys_per_step": 300, "top_k": 3000, "dim": 1}


@pytest.fixture(scope="module")
def found(small_workload: None) -> Any:
    return answer(**CLUSTER)


def test_each_input_has_a_row(found: Any) -> None:
    assert {each.input for each in found.effects} == INPUTS
    ranges = [each.range for each in found.effects]
    assert ranges == sorted(ranges, reverse=True)
    assert len(effects_table(found).rows) == 5


def test_the_effect_of_an_input_equals_a_simulation_with_the_changed_input(found: Any) -> None:
    """Here the simulated part is the whole cluster."""
    effects = {each.input: [effect.gain for effect in each.effects] for each in found.effects}
    others: dict[str, tuple[dict[str, Any], ...]] = {
        "skew": ({"skew": 0.25}, {"skew": 0.75}),
        "servers": ({"servers": 1}, {"servers": 4}),
        "keys a step": ({"keys_per_step": 150}, {"keys_per_step": 600}),
        "hot keys": ({"top_k": 1500}, {"top_k": 6000}),
    }
    for name, changes in others.items():
        for change, gain in zip(changes, effects[name], strict=True):
            baseline, offload = capacities_of(Cluster(**CLUSTER | change))
            assert gain == pytest.approx(offload / baseline, rel=0.1), (name, change)


def test_values_that_a_cluster_cannot_have_are_left_out() -> None:
    def simulate(config: SimulationConfig, log: object) -> float:
        if config.servers == 40:
            raise SimulationError("no port")
        return float(config.servers)

    found = input_effects(Cluster(workers=8, servers=20), None, 300, 2.0, 100, [(50, 1.5)], simulate)
    by_input = {each.input: each for each in found}
    assert [(each.value, each.gain) for each in by_input["servers"].effects] == [("10", 1.0)]
    assert [(each.value, each.gain) for each in by_input["hot keys"].effects] == [("50", 1.5)]
    assert by_input["skew"].range == 1.0


def test_a_cluster_of_the_most_servers_has_no_effect_of_more() -> None:
    """A switch has ports for 400 servers beside racks, and simulations have at most 256 servers."""
    cluster = Cluster(workers=2_000, servers=200, racks=40)
    found = input_effects(cluster, None, 300, 2.0, 100, [], lambda config, log: float(config.servers))
    [servers] = [each for each in found if each.input == "servers"]
    assert [each.value for each in servers.effects] == ["100"]


def test_cheaper_hosts_cost_a_tenth() -> None:
    (hosts,) = [each.cluster.hosts for each in _variants(Cluster(workers=8, servers=2), None, 300) if
                each.input == "costs of hosts"]  # fmt: skip
    assert hosts is not None
    costs = HostCosts()
    for name in ("send_ns", "begin_ns", "end_ns", "wake_ns", "serve_ns", "take_ns"):
        assert getattr(hosts, name) == getattr(costs, name) // 10 > 0
    assert hosts.slice_ns == costs.slice_ns


def test_mini_batches_of_another_size_or_skew_keep_the_keys_of_the_log() -> None:
    trace = trace_of([[1, 2, 3, 4], [3, 5], [6, 7, 8]])

    def batches(changed: Any) -> list[list[int]]:
        bounds = pairwise(changed.key_start.tolist())
        keys = [changed.space.keys(changed.position[a:b]).tolist() for a, b in bounds]
        assert changed.steps == len(keys)
        return keys

    assert batches(_halve(trace)) == [[1, 3], [2, 4], [3], [5], [6, 8], [7]]
    assert batches(_merge_pairs(trace)) == [[1, 2, 3, 4, 5], [6, 7, 8]]
    flat = _flatten(trace_of([list(range(100))] * 50 + [list(range(1_000))]))
    kept = [len(set(batch) & set(range(100))) for batch in batches(flat)[:50]]
    assert 45 < np.mean(kept) < 60


def test_the_effects_of_a_log_are_printed_with_a_row_for_each_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "_BATCHES_PER_WORKER", 4)
    random = np.random.default_rng(2)
    keys = np.minimum(random.zipf(1.3, 6_000), 2_000)
    pl.DataFrame({"item_id": keys}).write_csv(tmp_path / "log.csv")
    printed = invoke("answer", "--workers", 3, "--servers", 2, "--data", tmp_path / "log.csv", "--batch", 100)
    assert printed.exit_code == 0, printed.output
    rows = [line.split("  ")[0].strip() for line in printed.stdout.splitlines()]
    assert set(rows) >= INPUTS
    assert says_in_one_line(printed.stderr.splitlines()[0], "log.csv", "CSV", "item_id")
    assert not any(line.startswith(("calibrate", "measure")) for line in printed.stderr.splitlines())
