"""Costs are found from a run, and what they make of another one is compared as it should be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from analysis.disturbance import is_outside, key_of
from analysis.record import AnalysisError, RunRecord, Simulation, read_record
from analysis.summary import summarise
from experiment.run_config import Config
from hotline_answers.prediction import fit as fits
from hotline_answers.prediction.compare import LatencyPrediction, compare
from hotline_answers.prediction.fit import RANGES, WEIGHTS, Target, with_costs
from hotline_answers.prediction.observed import Observation, read_observation
from hotline_simulator.config import load_hosts
from hotline_simulator.costs import HostCosts, sources_of
from hotline_simulator.dedicated_switch.similar_run import config_like, shared_cores
from switch_harness.wording import mentions, says
from tests.harness import records
from tests.harness.cli import invoke, json_of
from tests.harness.known_costs import as_if_real

CELL = {
    "pull_mean": 100.0, "pull_p50": 90.0, "pull_p99": 400.0, "push_mean": 120.0, "push_p50": 110.0,
    "push_p99": 500.0, "worker_cpu": 1_000.0, "ps_cpu": 700.0,
}  # fmt: skip


def a_record(**changes: Any) -> RunRecord:
    of = {"placement": {"workers": [1], "servers": 0}, "offered_rate": {"0.5": 200.0, "0.8": 320.0}}
    config = Config(seed=7).model_dump(mode="json")
    return records.a_record(**{"datapath": "kernel", "config": config, **of, **changes})


# -- likeness


def test_a_run_is_simulated_at_its_own_rates_on_as_many_cores() -> None:
    hosts = HostCosts.model_validate({**shared_cores(a_record()), "program_ns": 5})
    config = config_like(a_record(), hosts, ["baseline", "offload"], rounds=3)
    assert (config.seed, config.arms, config.rounds) == (7, ("baseline", "offload"), 3)
    assert config.offered == {"0.5": 200, "0.8": 320}
    assert (config.hosts.worker_cores, config.hosts.server_cores, config.hosts.program_ns) == (1, 1, 5)
    assert (config.network.rate_mbit, config.network.delay_us) == (0, 0)
    assert shared_cores(a_record(placement={"workers": [1, 2, 3], "servers": []}))["worker_cores"] == 3


def test_cables_of_a_run_have_their_bandwidth_in_its_simulation() -> None:
    narrow = a_record(config=Config(cable_mbit=100).model_dump(mode="json"))
    assert config_like(narrow, HostCosts(), ["baseline", "offload"]).network.rate_mbit == 100


def test_a_simulated_run_is_refused_as_measurement() -> None:
    simulated = Simulation(rpcs=1, packet_passes=1, events=1, virtual_s=1, real_s=1)
    with pytest.raises(AnalysisError, match=mentions("simulated", "compare")):
        config_like(a_record(simulation=simulated), HostCosts(), ["baseline"])


# -- comparison


def test_means_may_be_off_by_15_and_tails_by_30_per_cent() -> None:
    def holds(metric: str, predicted: float) -> bool:
        return LatencyPrediction("0.5", "offload", metric, 100, predicted).holds

    assert [holds("pull_mean", value) for value in (84, 86, 114, 116)] == [False, True, True, False]
    assert [holds("push_p99", value) for value in (69, 71, 129, 131)] == [False, True, True, False]
    assert LatencyPrediction("0.5", "offload", "pull_mean", 80, 100).relative_error == 0.25


def test_a_measured_or_simulated_value_of_0_is_no_factor() -> None:
    """Nothing divides by it, and no logarithm is infinite."""
    nothing = LatencyPrediction("0.5", "offload", "pull_mean", 0, 0)
    assert (nothing.relative_error, nothing.holds) == (None, True)
    assert not LatencyPrediction("0.5", "offload", "pull_mean", 0, 3).holds
    base, hot = ("0.5", "baseline"), ("0.5", "offload")
    zero, some = {**CELL, "pull_mean": 0.0}, {**CELL, "pull_mean": 9.0}
    measured = Observation({base: zero, hot: some}, {(hot, "pull_mean"): 1}, {})
    assert compare(measured, Observation({base: some, hot: zero}, {}, {})).differences == ()
    gone = Observation({base: some, hot: zero}, {(hot, "pull_mean"): -1}, {})
    [change] = compare(gone, gone).differences
    assert (change.measured, change.predicted, change.holds) == (-1, -1, True)
    cells = {("1", "offload"): {**CELL, "ps_cpu": 0.0}}
    target = Target(cells, {"1": 500}, {"offload": 800})
    for ps_cpu, error in ((0.0, 0.0), (400.0, WEIGHTS["ps_cpu"])):
        found = Observation({cell: {**CELL, "ps_cpu": ps_cpu} for cell in cells}, {}, {"offload": 800})
        assert [value for value in target.residuals(found) if value] == ([error] if error else [])


def test_significant_differences_must_have_the_same_sign() -> None:
    base, hot = ("0.5", "baseline"), ("0.5", "offload")
    measured = Observation(
        {base: CELL, hot: {**CELL, "pull_mean": 110.0, "push_mean": 90.0}},
        {(hot, "pull_mean"): 1, (hot, "push_mean"): -1},
        {},
    )
    predicted = Observation({base: CELL, hot: {**CELL, "pull_mean": 130.0, "push_mean": 132.0}}, {}, {})
    found = compare(measured, predicted)
    expected = [("0.5", "offload", op) for op in ("pull_mean", "push_mean")]
    assert [of[:3] for of in found.differences] == expected
    changes = [change for of in found.differences for change in (of.measured, of.predicted)]
    assert changes == pytest.approx([0.1, 0.3, -0.25, 0.1])
    assert [of.holds for of in found.differences] == [True, False]
    assert len(found.latencies) == 8
    assert {(of.arm, of.metric) for of in found.latencies if not of.holds} == {
        ("offload", "pull_mean"), ("offload", "push_mean"),
    }  # fmt: skip


# -- fit


def test_cpu_that_no_operation_takes_is_as_much_at_every_load() -> None:
    """50 ms of a second: 250 µs of a step at 200 a second, 100 µs at 500."""
    cells = {("0.4", "baseline"): CELL, ("1", "baseline"): CELL}
    target = Target(cells, {"0.4": 200, "1": 500}, {"baseline": 800})
    cpu = {("0.4", "baseline"): 750.0, ("1", "baseline"): 900.0}
    found = Observation({cell: {**CELL, "worker_cpu": us} for cell, us in cpu.items()}, {}, {"baseline": 800})
    assert target.unexplained(found) == {"worker_cpu": pytest.approx(50_000), "ps_cpu": 0}
    assert target.residuals(found) == pytest.approx(np.zeros(2 * len(WEIGHTS) + 1))
    # There is no less than nothing.
    more = Observation({cell: {**CELL, "worker_cpu": 1_100.0} for cell in cells}, {}, {"baseline": 400})
    assert target.unexplained(more)["worker_cpu"] == 0
    off = [value for value in target.residuals(more) if value]
    assert off == pytest.approx([np.log(1.1), np.log(1.1), np.log(0.5)])


def test_fitted_logarithms_become_costs_and_ns_are_whole_numbers() -> None:
    base = HostCosts(worker_cores=1, serve_ns=77)
    hosts = with_costs(base, ["begin_ns", "noise_us"], np.log([1234.4, 5.5]))
    assert hosts.begin_ns == 1234 and hosts.noise_us == pytest.approx(5.5)
    assert (hosts.worker_cores, hosts.serve_ns) == (1, 77)
    assert all(of.low < of.start < of.high for of in RANGES.values())


@pytest.mark.soak
def test_costs_that_are_known_are_found_and_predict_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"rounds": 3, "block_ms": 40, "discard_ms": 5, "block_steps": 1, "profile_lanes": 2_000}
    monkeypatch.setattr(fits, "_SHORT_RUN", short)
    known = ("begin_ns", "send_ns", "program_ns", "hit_ns")
    monkeypatch.setattr(fits, "RANGES", {name: RANGES[name] for name in known})
    one, other = as_if_real(tmp_path, 1), as_if_real(tmp_path, 2)
    hosts = tmp_path / "hosts.toml"
    found = json_of("answer", "fit", one, "-o", hosts, "--evaluations", 30)
    # What an operation takes to begin is most of it, and far from where the search begins.
    assert found["hosts"]["begin_ns"] == pytest.approx(700_000, rel=0.2)
    capacities = [of for of in found["cells"] if of["metric"] == "capacity"]
    assert {of["arm"] for of in capacities} == {"baseline", "offload"}
    assert all(of["fitted"] == pytest.approx(of["measured"], rel=0.15) for of in capacities)
    latencies = json_of("answer", "predict", other, "--hosts", hosts)["latencies"]
    assert len(latencies) == 2 * 2 * 4
    means = [of for of in latencies if of["metric"].endswith("mean")]
    assert all(of["holds"] for of in means), means
    # A run predicts itself, and another one, as they are alike.
    itself = json_of("answer", "predict", other, "--from", other)
    assert {of["error"] for of in itself["latencies"]} == {0}
    alike = json_of("answer", "predict", other, "--from", one)
    assert max(abs(of["error"]) for of in alike["latencies"]) > 0
    # And with other costs it does not.
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[hosts]\nworker_cores = 1\nserver_cores = 1\nprogram_ns = 100\n")
    assert not any(of["holds"] for of in json_of("answer", "predict", other, "--hosts", wrong)["latencies"])
    assert says(invoke("answer", "predict", other, "--hosts", wrong).output, 0, 8, "15 %")


def test_the_observation_of_a_run_has_the_values_of_its_record_and_logs(tmp_path: Path) -> None:
    run = as_if_real(tmp_path, 1, hit_ns=200_000)
    found, record = read_observation(run), read_record(run)
    operations = pl.read_parquet(run / "operations.parquet").filter("measured", pl.col("round") >= 0)
    assert set(found.cells) == {(load, arm) for load in ("0.3", "0.6") for arm in ("baseline", "offload")}
    for (load, arm), cell in found.cells.items():
        blocks = [block for block in record.blocks if (str(block.load), block.arm) == (load, arm)]
        steps = sum(block.steps for block in blocks)
        assert cell["worker_cpu"] == pytest.approx(1e6 * sum(of.worker_cpu_s for of in blocks) / steps)
        assert cell["ps_cpu"] == pytest.approx(1e6 * sum(of.servers.cpu_s for of in blocks) / steps)
        at_load = (pl.col("load") - float(load)).abs() < 0.01
        own = operations.filter(pl.col("arm").cast(pl.String) == arm, at_load)
        for op in ("pull", "push"):
            took = own.filter(pl.col("op") == op)["latency_us"].to_numpy()
            assert cell[f"{op}_mean"] == pytest.approx(took.mean(), rel=0.01)
            for name, q in (("p50", 0.5), ("p99", 0.99)):
                assert cell[f"{op}_{name}"] == pytest.approx(np.quantile(took, q, method="inverted_cdf"))
    assert found.capacity == record.capacity
    reported = {}
    for load, of_load in summarise(run, record).loads.items():
        for metric in ("pull_mean", "push_mean"):
            of = of_load.differences["offload"][metric]
            assert of.ratio_low is not None and of.ratio_high is not None
            if of.ratio_low * of.ratio_high > 0:
                reported[(load, "offload"), metric] = 1 if of.difference > 0 else -1
    assert found.signs == reported != {}


def test_a_run_that_cannot_be_fitted_or_predicted_is_refused(tmp_path: Path) -> None:
    run = as_if_real(tmp_path, 1)
    result = invoke("answer", "fit", str(run), "--arms", "baseline,offload-proxy")
    assert result.exit_code == 1
    assert says(result.output, "offload-proxy", run)
    result = invoke("answer", "fit", str(tmp_path))
    assert result.exit_code == 1 and "not a run folder" in result.output
    for options in ((), ("--from", str(run), "--hosts", "hosts.toml")):
        result = invoke("answer", "predict", str(run), *options)
        assert result.exit_code == 2
        assert "--hosts FILE" in result.output and "--from DIRECTORY" in result.output
    result = invoke("answer", "predict", str(run), "--hosts", str(tmp_path / "nowhere.toml"))
    assert result.exit_code == 1 and says(result.output, "nowhere.toml", "file")


# -- disturbed runs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return as_if_real(tmp_path_factory.mktemp("run"), 1)


def disturb(run: Path, folder: Path, blocks: int) -> Path:
    """Copy a run, in which the first blocks of arm baseline at load 0.3 were disturbed, and slower."""
    shutil.copytree(run, folder)
    record = read_record(run)
    for block in record.blocks:
        block.disturbed = []
    chosen = [block for block in record.blocks if (block.arm, block.load) == ("baseline", 0.3)][:blocks]
    for block in chosen:
        block.disturbed, block.worker_cpu_s = ["steal"], 100.0
    operations = pl.read_parquet(folder / "operations.parquet")
    slower = pl.when(is_outside(map(key_of, chosen))).then(1.0).otherwise(1e3)
    operations.with_columns(latency_us=pl.col("latency_us") * slower).write_parquet(
        folder / "operations.parquet"
    )
    record.write(folder)
    return folder


def test_the_observation_of_a_run_leaves_out_disturbed_blocks(run: Path, tmp_path: Path) -> None:
    """Of 12 blocks at a load, two are no more than a fifth."""
    quiet, found = (read_observation(disturb(run, tmp_path / str(n), n)) for n in (0, 2))
    cell = ("0.3", "baseline")
    assert found.cells[cell]["worker_cpu"] == pytest.approx(quiet.cells[cell]["worker_cpu"], rel=0.1)
    assert found.cells[cell]["pull_mean"] == pytest.approx(quiet.cells[cell]["pull_mean"], rel=0.3)
    assert {at: found.cells[at] for at in found.cells if at != cell} == {
        at: quiet.cells[at] for at in quiet.cells if at != cell
    }


@pytest.mark.parametrize(("blocks", "is_judged"), [(2, True), (3, False)])
def test_a_run_with_too_many_disturbed_blocks_is_not_judged(
    blocks: int, is_judged: bool, run: Path, tmp_path: Path
) -> None:
    disturbed = disturb(run, tmp_path / "disturbed", blocks)
    for of, by in ((disturbed, run), (run, disturbed)):
        found = json_of("answer", "predict", of, "--from", by)
        judged = {type(each["holds"]) for kind in ("latencies", "differences") for each in found[kind]}
        assert judged == ({bool} if is_judged else {type(None)})
        assert (found["disturbed"] is None) is is_judged
        said = invoke("answer", "predict", of, "--from", by).output
        assert ("holds" in said) is is_judged
        assert says(said, "not judged", 3, 12) is not is_judged


def test_costs_fitted_to_a_disturbed_run_name_the_disturbance_and_judge_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"rounds": 1, "block_ms": 5, "discard_ms": 1, "block_steps": 1, "profile_lanes": 2_000}
    monkeypatch.setattr(fits, "_SHORT_RUN", short)
    monkeypatch.setattr(fits, "RANGES", {"begin_ns": RANGES["begin_ns"]})
    hosts = tmp_path / "hosts.toml"
    disturbed = disturb(run, tmp_path / "disturbed", 3)
    result = invoke("answer", "fit", disturbed, "-o", hosts, "--evaluations", 1)
    assert result.exit_code == 0 and says(result.stderr, 3, 12, "hypervisor")
    [at_load, other_load] = load_hosts(hosts).sources
    assert (at_load.disturbed, at_load.blocks, at_load.reasons) == (3, 12, {"steal": 3})
    assert other_load.disturbed == 0
    assert json_of("answer", "predict", run, "--hosts", hosts)["disturbed"]["disturbed"] == 3
    # A file without these, and with times of that run, has the run's.
    assert sources_of(HostCosts(measured=disturbed))[0].disturbed == 3
    assert sources_of(HostCosts()) == ()
