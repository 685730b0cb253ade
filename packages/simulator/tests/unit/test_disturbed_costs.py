"""A busy machine claims nothing of a dedicated switch that a quiet one does not claim."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from analysis.claims import Recommendation, claims
from analysis.dedicated_switch import DedicatedSwitchPrediction, predict
from analysis.disturbance import blocks_without_costs, cost_sources
from analysis.disturbed_blocks import DisturbedBlocks, withheld_by
from analysis.record import RunRecord, Virtual, read_record
from analysis.summary import summarise, summarise_for_costs
from analysis.verdict import Verdict
from foundation.designs.arms import baseline_and_lead
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts
from hotline_simulator.dedicated_switch.similar_run import baseline_costs, costs_of_run
from hotline_simulator.dedicated_switch.simulate import simulate_dedicated_switch
from hotline_simulator.experiment import quiet_reporter, temporary_run
from tests.harness.disturbed_runs import Injection, draw_injection, inject
from tests.harness.known_costs import as_if_measured

NO_CLAIM = {Recommendation.UNDECIDED, Recommendation.COSTS_WITHHELD}
FITTED = {"idle_ns", "begin_ns", "finish_ns", "push_ns", "program_ns", "lookup_ns", "answer_ns"}
SMALL = {
    "workers": 2, "servers": 1, "arms": ("baseline", "offload"), "rounds": 6, "top_k": 40, "block_steps": 1,
    "trace_steps": 100, "profile_lanes": 2_000,
    "workload": {"parameters": 2_000, "hot_parameters": 40, "keys_per_step": 50},
}  # fmt: skip
DRAWS = range(200)
FAST_DRAWS = (0, 1, 2, 3, 136)  # in all blocks of the last one agents wait for 12 %, and only waits are seen


class QuietRun(NamedTuple):
    folder: Path
    virtual: Virtual
    prediction: DedicatedSwitchPrediction


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> QuietRun:
    """Return a run in which the servers' CPU time and packets are claimed, and times and capacity are not."""
    folder = as_if_measured(tmp_path_factory.mktemp("quiet"), 2, rounds=8, block_ms=80)
    record = read_record(folder)
    record.virtual = simulate_dedicated_switch(folder, record)
    prediction = predict(summarise(folder, record))
    assert prediction is not None
    return QuietRun(folder, record.virtual, prediction)


def claimed(prediction: DedicatedSwitchPrediction) -> set[tuple[str, int]]:
    """Return what is claimed: metric, or the capacity, and the sign of its change."""
    signs = {(name, claim.sign) for name, claim in prediction.claims.items()}
    if prediction.capacity is not None:
        signs.add(("capacity", prediction.capacity.sign))
    return {(name, sign) for name, sign in signs if sign}


def predict_disturbed(quiet: QuietRun, injection: Injection) -> DedicatedSwitchPrediction:
    with TemporaryDirectory() as scratch:
        run = inject(quiet.folder, Path(scratch) / "run", injection)
        record = read_record(run)
        record.virtual = simulated(run, record, quiet)
        prediction = predict(summarise(run, record))
    assert prediction is not None
    return prediction


def simulated(run: Path, record: RunRecord, quiet: QuietRun) -> Virtual:
    sources = cost_sources(record, [arm.name for arm in baseline_and_lead(record.design)])
    if withheld_by(sources) is not None:
        # Whatever a simulation says is withheld, so none is needed.
        return quiet.virtual.model_copy(update={"sources": sources})
    return simulate_dedicated_switch(run, record)


def test_a_quiet_run_is_trusted_and_keeps_its_claims(
    quiet: QuietRun,
) -> None:
    prediction = quiet.prediction
    assert prediction.reservations.verdict is None and not prediction.reservations.is_any_disturbed
    assert prediction.recommendation is Recommendation.IF_SERVERS_COST
    expected = {("ps_cpu_us_per_step", -1), ("ps_packets_per_step", -1), ("ps_bytes_per_step", -1)}
    assert expected <= claimed(prediction)
    assert not {name for name, _ in claimed(prediction)} & {"pull_mean", "push_mean", "capacity"}


@pytest.mark.parametrize(
    "seeds",
    [FAST_DRAWS, pytest.param([*{*DRAWS} - {*FAST_DRAWS}], marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_a_disturbed_run_claims_nothing_that_the_quiet_run_does_not_claim(
    seeds: Sequence[int], quiet: QuietRun
) -> None:
    new = {}
    for seed in seeds:
        injection = draw_injection(seed)
        found = predict_disturbed(quiet, injection)
        added = claimed(found) - claimed(quiet.prediction)
        if added or found.recommendation not in {quiet.prediction.recommendation, *NO_CLAIM}:
            new[injection] = added, found.recommendation
    assert new == {}


def test_costs_are_fitted_to_undisturbed_blocks(quiet: QuietRun, tmp_path: Path) -> None:
    """A disturbance that takes most of a CPU in a few blocks changes no cost; in all blocks it does."""

    def costs(run: Path) -> dict[str, float]:
        record, summary = summarise_for_costs(run, read_record(run))
        found = costs_of_run(run, record, summary).model_dump(include=FITTED)
        measured = baseline_costs(run, record, summary)
        return found | {"worker_us": measured.worker_us, "server_us": measured.server_us}

    heavy = Injection("steal", "a few blocks", share=0.7, pollution=1, seed=5)
    expected, few, all_blocks = (
        costs(quiet.folder),
        costs(inject(quiet.folder, tmp_path / "few", heavy)),
        costs(inject(quiet.folder, tmp_path / "all", replace(heavy, spread="all blocks"))),
    )
    assert blocks_without_costs(read_record(tmp_path / "few"))
    assert few == pytest.approx(expected, rel=0.1)
    assert all(all_blocks[name] > 1.5 * expected[name] for name in ("begin_ns", "worker_us", "server_us"))


def test_a_simulation_with_costs_of_a_busy_machine_claims_counts_only(
    quiet: QuietRun, tmp_path: Path
) -> None:
    """The file says that costs were disturbed, or names a run that was."""
    run = Path(shutil.copytree(quiet.folder, tmp_path / "busy"))
    record = read_record(run)
    for block in record.blocks:
        block.disturbed = ["others' CPU"]
    record.write(run)
    busy = DisturbedBlocks(blocks=6, disturbed=6, reasons={"others' CPU": 6})
    for hosts in (HostCosts(sources=(busy,)), HostCosts(measured=run)):
        config = SimulationConfig.model_validate({**SMALL, "hosts": hosts.model_dump()})
        with temporary_run(config, None, quiet_reporter()) as simulated:
            [load] = simulated.summary.loads
            found = claims(simulated.summary, load, "offload")
        assert found["ps_cpu_us_per_step"].verdict is Verdict.DISTURBED
        assert found["ps_packets_per_step"].verdict is Verdict.LESS
        assert not {name for name, claim in found.items() if claim.sign and claim.metric.kind != "count"}


def test_a_slight_disturbance_keeps_the_claim_that_servers_save_cpu(quiet: QuietRun) -> None:
    slight = Injection("others' CPU", "a few blocks", share=0.06, pollution=0.5, seed=3)
    found = predict_disturbed(quiet, slight)
    assert found.reservations.is_any_disturbed and found.reservations.verdict is None
    assert ("ps_cpu_us_per_step", -1) in claimed(found)


@pytest.mark.parametrize("kind", ["steal", "others' CPU", "waits"])
def test_a_machine_that_is_busy_in_all_blocks_claims_counts_only(kind: str, quiet: QuietRun) -> None:
    found = predict_disturbed(quiet, Injection(kind, "all blocks", share=0.6, pollution=0.5, seed=1))  # type: ignore[arg-type]  # a kind
    assert found.recommendation is Recommendation.COSTS_WITHHELD
    counts = {"ps_packets_per_step", "ps_bytes_per_step", "rpcs_per_step"}
    assert {name for name, _ in claimed(found)} <= counts
