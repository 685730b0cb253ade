"""A busy machine claims nothing of a dedicated switch that a quiet one does not claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from analysis.claims import Recommendation
from analysis.dedicated_switch import DedicatedSwitchPrediction, predict
from analysis.disturbance import cost_sources
from analysis.disturbed_blocks import withheld_by
from analysis.record import RunRecord, Virtual, read_record
from analysis.summary import summarise
from foundation.designs.arms import baseline_and_lead
from simulator.dedicated_switch.simulate import simulate_dedicated_switch
from tests.harness.disturbed_runs import Injection, draw_injection, inject
from tests.harness.known_costs import as_if_measured

NO_CLAIM = {Recommendation.UNDECIDED, Recommendation.COSTS_WITHHELD}
DRAWS, FAST_DRAWS = 200, 4


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
    claims = {(name, claim.sign) for name, claim in prediction.claims.items()}
    if prediction.capacity is not None:
        claims.add(("capacity", prediction.capacity.sign))
    return {(name, sign) for name, sign in claims if sign}


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


def test_a_quiet_run_is_trusted_and_claims_what_it_claimed_without_a_look_at_its_costs(
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
    [range(FAST_DRAWS), pytest.param(range(FAST_DRAWS, DRAWS), marks=pytest.mark.soak)],
    ids=["few", "many"],
)
def test_a_disturbed_run_claims_nothing_that_the_quiet_run_does_not_claim(
    seeds: Sequence[int], quiet: QuietRun
) -> None:
    new = {}
    for seed in seeds:
        injection = draw_injection(seed)
        found = predict_disturbed(quiet, injection)
        claims = claimed(found) - claimed(quiet.prediction)
        if claims or found.recommendation not in {quiet.prediction.recommendation, *NO_CLAIM}:
            new[injection] = claims, found.recommendation
    assert new == {}


def test_a_slight_disturbance_still_claims_what_servers_save(quiet: QuietRun) -> None:
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
