"""Parts of clusters beside the whole, and what the oversubscription of uplinks does to the gain."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiment.phases.workload import generate_trace
from foundation.logs.access.block import ReadOptions
from foundation.protocol.addressing import MAX_HOSTS
from hosts.workload.data_files import deal, load
from hotline_agents.worker.logs import WorkerLogs
from hotline_answers.cluster_answer.ask import ClusterAnswer, answer_cluster, capacities, simulate_size
from hotline_answers.cluster_answer.cluster import MAX_ERROR, Cluster, config_for, max_workers, part_of
from hotline_answers.cluster_answer.hotset import workload_for
from hotline_simulator.costs import HostCosts
from hotline_simulator.experiment import quiet_reporter
from packages.answers.tests.harness.capacities import capacities_of
from switch_harness.effort import examples
from switch_harness.wording import says

pytestmark = pytest.mark.usefixtures("no_input_effects")


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster(workers=32, servers=2, keys_per_step=600, top_k=5_000),
        Cluster(workers=32, servers=8, keys_per_step=600, top_k=5_000, racks=4),
        Cluster(workers=24, servers=24, keys_per_step=300, top_k=5_000, racks=6),
        Cluster(workers=32, servers=2, keys_per_step=600, top_k=5_000, racks=4, oversubscription=400),
        Cluster(workers=32, servers=1, keys_per_step=900, top_k=5_000, hosts=HostCosts(connection_ns=300)),
    ],
    ids=["servers", "servers in racks", "workers", "uplinks", "connections"],
)
def test_a_part_of_a_cluster_carries_its_share(cluster: Cluster) -> None:
    """Each is limited by something else, and a quarter or a third of it is simulated."""
    part = capacities_of(cluster, max(8, cluster.workers // 8))
    assert part == pytest.approx(capacities_of(cluster), rel=MAX_ERROR)


def test_the_capacity_with_a_hot_set_needs_no_simulation_without() -> None:
    config = config_for(Cluster(workers=4, servers=1, keys_per_step=100, top_k=500))
    workload = workload_for(config, None, quiet_reporter())
    both = capacities(config, workload, 500, quiet_reporter())
    assert simulate_size(config, workload, 500, quiet_reporter()).capacity == both[1] != both[0]


def test_simulations_for_a_capacity_write_no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_for(Cluster(workers=2, servers=1, keys_per_step=100, top_k=500))
    workload = workload_for(config, None, quiet_reporter())
    for write in ("write_rpcs", "write_operations"):
        monkeypatch.setattr(WorkerLogs, write, None)
    assert simulate_size(config, workload, 500, quiet_reporter()).capacity > 0


def test_samples_change_no_capacity() -> None:
    """Answers leave them out: to train on them takes half of a simulation."""
    config = config_for(Cluster(workers=4, servers=1, keys_per_step=100, top_k=500))
    workload = workload_for(config, None, quiet_reporter())
    training = workload._replace(trace=generate_trace(config, lambda done: None))
    assert workload.trace.samples is None and training.trace.samples is not None
    assert capacities(config, training, 500, quiet_reporter()) == capacities(
        config, workload, 500, quiet_reporter()
    )


@pytest.fixture(scope="module")
def of_part() -> ClusterAnswer:
    cluster = Cluster(workers=64, servers=8, keys_per_step=600, top_k=5_000, racks=8, rate=5_000, dim=1)
    return answer_cluster(cluster, quiet_reporter(), max_rpcs=750)


def test_an_answer_by_a_part_has_the_rates_of_the_whole(of_part: ClusterAnswer) -> None:
    cluster = of_part.cluster
    assert of_part.simulated_workers == 16
    whole = capacities_of(cluster)
    sides = of_part.sides
    assert (sides.baseline.capacity, sides.offload.capacity) == pytest.approx(whole, rel=MAX_ERROR)
    assert sides.rate == pytest.approx(5_000)
    assert sides.baseline.at_rate.servers < sides.baseline.at_capacity.servers <= 1
    assert "pull_mean" not in sides.differences and "ps_packets_per_step" in sides.differences
    assert of_part.part_check is not None and of_part.part_check.workers == 8
    for check, side in (
        (of_part.part_check.baseline, sides.baseline), (of_part.part_check.offload, sides.offload),
    ):  # fmt: skip
        assert abs(side.capacity / check - 1) <= abs(of_part.part_check.error) + 1e-9 < MAX_ERROR
    # Sizes are those of the whole, too.
    assert of_part.sizes[0].capacity == pytest.approx(whole[0], rel=MAX_ERROR)
    assert of_part.sizes[0].ps_cpu_us * of_part.sizes[0].capacity / 1e6 == pytest.approx(
        cluster.servers * sides.baseline.at_capacity.servers
    )
    assert any(says(sentence, 16, 64, "25 %") for sentence in of_part.sentences)
    assert any(says(sentence, 8, "racks") for sentence in of_part.sentences)


@pytest.mark.parametrize("oversubscription", [64, 1_024])
def test_the_gain_by_oversubscription_equals_the_simulated_gain(
    of_part: ClusterAnswer, oversubscription: int
) -> None:
    narrow = of_part.cluster.model_copy(update={"oversubscription": oversubscription})
    [calculated] = [each for each in of_part.uplinks if each.oversubscription == oversubscription]
    baseline, offload = capacities_of(narrow)
    assert calculated.baseline == pytest.approx(baseline, rel=MAX_ERROR)
    assert calculated.offload == pytest.approx(offload, rel=MAX_ERROR)


def test_gains_fall_as_uplinks_get_narrower(of_part: ClusterAnswer) -> None:
    capacity = [each.baseline for each in of_part.uplinks]
    assert capacity == sorted(capacity, reverse=True)
    first, last = of_part.uplinks[0], of_part.uplinks[-1]
    assert first.gain == pytest.approx(of_part.sides.gain) and last.gain < 0.9 * first.gain
    [sentence] = [each for each in of_part.sentences if "oversubscription" in each]
    assert f"{last.gain:.2f} from" in sentence
    [limit] = re.findall(r"of ([\d,]+):1;", sentence)
    free = [each for each in of_part.uplinks if each.oversubscription <= int(limit.replace(",", ""))]
    assert free[-1].baseline > 0.97 * first.baseline
    assert of_part.uplinks[len(free)].gain < 0.97 * first.gain


def test_two_thousand_workers_and_two_hundred_servers_are_a_part() -> None:
    cluster = Cluster(workers=2_000, servers=200, racks=100, oversubscription=4)
    part = part_of(cluster, max_workers(cluster, cluster.keys_per_step))
    config = config_for(cluster, part)
    assert 100 <= part.workers <= 300 and part.rack == 20 and config.servers == 200
    assert config.network.uplink_mbit == 20 * 10_000 / 4
    assert config.network.switch_mpps == pytest.approx(1_000 * part.share)


@given(
    workers=st.integers(2, 5_000), servers=st.integers(1, 250), rack=st.integers(2, 500) | st.none(),
    limit=st.integers(2, MAX_HOSTS),
)  # fmt: skip
@settings(max_examples=examples(100))
def test_a_part_has_whole_racks(workers: int, servers: int, rack: int | None, limit: int) -> None:
    racks = None if rack is None else math.ceil(workers / rack)
    cluster = Cluster(workers=workers, servers=servers, racks=racks)
    part = part_of(cluster, limit)
    assert 0 < part.workers <= min(limit, workers) and part.share == part.workers / workers
    if part.is_whole:
        assert part.workers == workers and part.rack == cluster.rack
    elif cluster.rack is None or part.rack is None:
        assert part == (limit, None, limit / workers)
    else:
        assert part.rack == min(cluster.rack, limit) and part.workers % part.rack == 0
        assert part.workers > limit - part.rack


def test_mini_batches_are_dealt_to_workers_in_the_order_of_the_file(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = [f"{step},1,{key}" for step in range(23) for key in range(step % 5 + 1)]
    log.write_text("\n".join(["iteration,worker,key", *rows]) + "\n")
    of_one = load(log, 1, ReadOptions())
    dealt, read = deal(of_one, 4, log), load(log, 4, ReadOptions())
    assert (dealt.workers, dealt.steps) == (read.workers, read.steps) == (4, 5)
    for worker in range(1, 5):
        for step in range(5):
            positions = of_one.batch(1, 4 * step + worker - 1).positions
            for trace in (dealt, read):
                assert np.array_equal(trace.batch(worker, step).positions, positions)
