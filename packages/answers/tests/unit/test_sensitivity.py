"""The effects of other inputs: against simulations of whole clusters, and changes of a log's mini-batches."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from hotline_answers.cluster_answer import sensitivity
from hotline_answers.cluster_answer.arm_results import ArmResult, OffloadComparison
from hotline_answers.cluster_answer.ask import capacities
from hotline_answers.cluster_answer.cluster import Cluster, config_for
from hotline_answers.cluster_answer.hotset import workload_for
from hotline_answers.cluster_answer.sensitivity import (
    JOURNAL_SHARE,
    GainAtValue,
    _flatten,
    _halve,
    _merge_pairs,
    _variants,
    input_effects,
)
from hotline_answers.result import answer, effects_table
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts
from hotline_simulator.experiment import quiet_reporter
from packages.answers.tests.harness.capacities import capacities_of
from switch_harness.wording import says_in_one_line
from tests.harness.cli import invoke
from tests.harness.traces import trace_of
from tools.evidence.result import Measured, published_table

COSTS = HostCosts()
pytestmark = pytest.mark.usefixtures("small_workload")

INPUTS = {
    "skew", "keys a step", "costs of hosts", "servers", "hot keys", "values of a row", "cost of an RPC",
    "host stack", "lanes", "optimiser", "durability",
}  # fmt: skip
CLUSTER: dict[str, Any] = {"workers": 8, "servers": 2, "keys_per_step": 300, "top_k": 3000}


@pytest.fixture(scope="module")
def found(small_workload: None) -> Any:
    return answer(**CLUSTER)


def test_each_input_has_a_row(found: Any) -> None:
    assert {each.input for each in found.effects} == INPUTS
    ranges = [each.range_with(found.sides.gain) for each in found.effects]
    assert ranges == sorted(ranges, reverse=True) and ranges[-1] >= 1
    assert len(effects_table(found).rows) == len(INPUTS)


def test_the_effect_of_an_input_equals_a_simulation_with_the_changed_input(found: Any) -> None:
    """Here the simulated part is the whole cluster."""
    effects = {each.input: [effect.gain for effect in each.effects] for each in found.effects}
    others: dict[str, tuple[dict[str, Any], ...]] = {
        "skew": ({"skew": 0.25}, {"skew": 0.75}),
        "servers": ({"servers": 1}, {"servers": 4}),
        "keys a step": ({"keys_per_step": 150}, {"keys_per_step": 600}),
        "hot keys": ({"top_k": 1500}, {"top_k": 6000}),
        "values of a row": ({"dim": 16}, {"dim": 128}),
        "cost of an RPC": tuple(
            {"hosts": HostCosts(serve_ns=COSTS.serve_ns + 1_000 * us)} for us in (10, 50)
        ),
        "host stack": ({"hosts": HostCosts(wake_ns=0, idle_ns=0, send_ns=100, take_ns=100)},),
        "durability": ({"hosts": with_journals(COSTS)},),
        "optimiser": ({"optimiser": "adagrad(lr=0.1)"},),
    }
    assert others.keys() | {"costs of hosts", "lanes"} == INPUTS
    for name, changes in others.items():
        for change, gain in zip(changes, effects[name], strict=True):
            baseline, offload = capacities_of(Cluster(**{"dim": 1, **CLUSTER, **change}))
            assert gain == pytest.approx(offload / baseline, rel=0.1), (name, change)


def with_journals(costs: HostCosts) -> HostCosts:
    """Return costs of a server that takes as much longer as one with a journal did in runs."""
    share = measured_share_of_journals()
    return HostCosts(
        serve_ns=round(costs.serve_ns + share * (costs.serve_ns + costs.send_ns)),
        lane_ns=round((1 + share) * costs.lane_ns),
        value_ns=(1 + share) * costs.value_ns,
    )


def measured_share_of_journals() -> float:
    change = published_table("recovery").cell("baseline, PS CPU a step", "`journal_sync = never`")
    assert isinstance(change, Measured)
    return change.value / 100


def test_the_cost_of_a_journal_is_the_measured_one() -> None:
    assert round(measured_share_of_journals(), 3) == JOURNAL_SHARE


def test_lanes_are_halved_in_a_simulation_of_the_same_cluster(found: Any) -> None:
    [lanes] = [each for each in found.effects if each.input == "lanes"]
    config = config_for(Cluster(dim=1, **CLUSTER))
    config = config.model_copy(update={"network": config.network.model_copy(update={"switch_lanes": 16})})
    workload = workload_for(config, None, quiet_reporter())
    baseline, offload = capacities(config, workload, config.top_k, quiet_reporter())
    assert [each.value for each in lanes.effects] == ["16"]
    assert lanes.effects[0].gain == pytest.approx(offload / baseline, rel=0.1)


@pytest.mark.parametrize(("dim", "others"), [(1, ["16"]), (8, ["1", "16"]), (16, ["1", "64"]), (128, ["64"])])
def test_rows_of_a_given_dim_are_compared_with_the_next_shorter_and_longer(
    dim: int, others: list[str]
) -> None:
    cluster = Cluster(workers=8, servers=2, dim=dim)
    shown = [each for each in _variants(cluster, None, 300) if each.input == "values of a row"]
    assert {each.value for each in shown} == {f"{dim}"}
    assert [each.other_value for each in shown] == others
    trace = trace_of([[1, 2], [3]])
    for each in shown:
        assert each.change is not None
        changed = each.change(trace)
        assert set(changed.space.dims) == {each.cluster.dim} == {int(each.other_value)}
        assert changed.position.tolist() == trace.position.tolist()


def test_inputs_foreign_to_a_switch_or_to_a_part_of_a_cluster_are_left_out() -> None:
    def inputs_of(**settings: Any) -> set[str]:
        cluster = Cluster(**{"workers": 8, "servers": 2, **settings})
        found = input_effects(cluster, None, 300, comparison(2.0, 100), {}, lambda config, log: 1.0)
        return {each.input for each in found}

    without_rows = INPUTS - {"values of a row", "hot keys"}  # the answer has simulated both
    assert inputs_of() == without_rows
    assert inputs_of(switch="tofino") == without_rows - {"lanes", "optimiser"}
    assert inputs_of(optimiser="adagrad") == without_rows - {"lanes"}
    assert inputs_of(workers=2_000, servers=200, racks=200) == without_rows - {"optimiser"}


def comparison(gain: float, top_k: int) -> OffloadComparison:
    baseline, offload = (ArmResult.model_construct(capacity=capacity) for capacity in (1.0, gain))
    return OffloadComparison.model_construct(top_k=top_k, baseline=baseline, offload=offload)


def test_values_that_a_cluster_cannot_have_are_left_out() -> None:
    def simulate(config: SimulationConfig, log: object) -> float:
        if config.servers == 40:
            raise SimulationError("no port")
        return float(config.servers)

    memory = {("hot keys", "100"): [GainAtValue(value="50", gain=1.5)]}
    found = input_effects(Cluster(workers=8, servers=20), None, 300, comparison(2.0, 100), memory, simulate)
    by_input = {each.input: each for each in found}
    assert [(each.value, each.gain) for each in by_input["servers"].effects] == [("10", 1.0)]
    assert [(each.value, each.gain) for each in by_input["hot keys"].effects] == [("50", 1.5)]
    assert by_input["skew"].range_with(2.0) == 1.0


def test_a_cluster_of_the_most_servers_has_no_effect_of_more() -> None:
    """A switch has ports for 400 servers beside racks, and simulations have at most 256 servers."""
    cluster = Cluster(workers=2_000, servers=200, racks=40)
    found = input_effects(
        cluster, None, 300, comparison(2.0, 100), {}, lambda config, log: float(config.servers)
    )
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


def test_measured_times_of_servers_are_not_varied(tmp_path: Path) -> None:
    def inputs_of(hosts: HostCosts) -> set[str]:
        cluster = Cluster(workers=8, servers=2, hosts=hosts)
        return {each.input for each in _variants(cluster, None, 300)}

    assert inputs_of(HostCosts()) - inputs_of(HostCosts(measured=tmp_path)) == {
        "cost of an RPC",
        "durability",
    }


def test_an_optimiser_without_a_simulation_is_left_out() -> None:
    def simulate(config: SimulationConfig, log: object) -> float:
        if config.optimiser is not None:
            raise SimulationError("no such rows")
        return 1.0

    found = input_effects(Cluster(workers=8, servers=2), None, 300, comparison(2.0, 100), {}, simulate)
    assert "optimiser" not in {each.input for each in found} >= {"skew", "servers"}


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
