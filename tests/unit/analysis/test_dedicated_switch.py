"""Test the prediction for a dedicated switch and the model's error."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims import Recommendation, answer
from analysis.dedicated_switch import predict, widen
from analysis.disturbed_blocks import CLOSED_LOOP, DisturbedBlocks
from analysis.forest import forest
from analysis.page.build import Result
from analysis.record import CapacityCheck, RunRecord, Virtual
from analysis.report import answers, result
from analysis.sentences.answers import first_screen_notes
from analysis.statistics import Comparison, compare_paired
from analysis.summary import Summary
from analysis.verdict import Verdict
from experiment.run_config import PlacementConfig
from switch_harness.wording import says
from tests.harness.records import a_record
from tests.harness.summaries import a_load, a_summary, of_ratio
from tests.unit.analysis.test_record import MINIMAL_RECORD
from topologies.cpu_placement import place

CPU, PULL = "ps_cpu_us_per_step", "pull_mean"


def virtual(own: dict[str, Comparison], shared: dict[str, Comparison], load: str = "0.5") -> Virtual:
    return Virtual(
        load=load,
        own=own,
        shared=shared,
        own_capacity={"baseline": 1_000.0, "offload": 1_500.0},
        shared_capacity={"baseline": 400.0, "offload": 300.0},
        network={"switch_us": 1.0, "switch_mpps": 1_000.0},
    )


def summary(measured: dict[str, Comparison], found: Virtual | None) -> Summary:
    return a_summary(
        {"0.5": a_load(differences={"offload": measured})},
        virtual=found,
        cpus=2,
        capacity={"baseline": 300.0, "offload": 250.0},
        program_share={"workers": 0.1, "servers": 0.1},
    )


MEASURED = {CPU: of_ratio(-0.3, -0.35, -0.25), PULL: of_ratio(0.1, 0.05, 0.15)}
SHARED = {CPU: of_ratio(-0.4, -0.41, -0.39), PULL: of_ratio(0.1, 0.08, 0.12)}
OWN = {CPU: of_ratio(-0.36, -0.37, -0.35), PULL: of_ratio(0.04, 0.02, 0.05)}


def test_an_interval_is_widened_by_the_error_of_the_model() -> None:
    """0.6 of *baseline* where 0.7 was measured: a factor of 7/6, on either side."""
    found = widen(OWN[CPU], SHARED[CPU], MEASURED[CPU])
    assert (found.ratio, found.reference) == (-0.36, 100)
    assert found.ratio_low == pytest.approx(0.63 * 6 / 7 - 1)
    assert found.ratio_high == pytest.approx(0.65 * 7 / 6 - 1)
    assert (found.low, found.high) == pytest.approx((100 * (0.54 - 1), 100 * (0.65 * 7 / 6 - 1)))
    assert widen(OWN[PULL], SHARED[PULL], MEASURED[PULL]).ratio_low == pytest.approx(0.02)
    # An unknown interval stays unknown.
    assert widen(of_ratio(0.1), SHARED[PULL], MEASURED[PULL]) == of_ratio(0.1)


def bounds(ratio: float, low: float, high: float, shared: float, measured: float) -> tuple[float | None, ...]:
    found = widen(of_ratio(ratio, low, high), of_ratio(shared, shared, shared), of_ratio(measured))
    return found.ratio_low, found.ratio_high


def test_an_error_of_a_value_of_0_is_a_distance() -> None:
    """No factor leads from 0 to the value that was measured, or back."""
    assert bounds(-1, -1, -1, shared=-1, measured=-0.94) == pytest.approx((-1, -0.94))
    assert bounds(-1, -1, -1, shared=-0.94, measured=-1) == pytest.approx((-1, -0.94))
    assert bounds(-0.9, -0.95, -0.85, shared=-0.9, measured=-1) == pytest.approx((-1, -0.75))
    # The model is right, and does not widen anything.
    assert bounds(-1, -1, -1, shared=-1, measured=-1) == (-1, -1)
    assert bounds(0.5, 0.4, 0.6, shared=-1, measured=-1) == (0.4, 0.6)


@given(*[st.floats(-1, 5)] * 5)
def test_a_widened_interval_stays_in_its_range_and_contains_the_original_interval(
    one: float, ratio: float, other: float, shared: float, measured: float
) -> None:
    low, ratio, high = sorted((one, ratio, other))
    wider_low, wider_high = bounds(ratio, low, high, shared, measured)
    assert wider_low is not None and wider_high is not None
    assert -1 <= wider_low <= low + 1e-9 and high - 1e-9 <= wider_high < math.inf


@pytest.mark.parametrize("lacking", ["own", "shared", "measured"])
def test_without_a_baseline_a_prediction_is_unchecked_and_claims_nothing(lacking: str) -> None:
    from_zero = compare_paired(np.full(6, 3.0), np.zeros(6))
    values = {name: {**of, PULL: from_zero} if name == lacking else of
              for name, of in (("own", OWN), ("shared", SHARED), ("measured", MEASURED))}  # fmt: skip
    found = predict(summary(values["measured"], virtual(values["own"], values["shared"])))
    assert found is not None and found.claims[PULL].verdict is Verdict.UNCHECKED
    assert found.claims[CPU].verdict is Verdict.LESS


@pytest.mark.parametrize("name", ["capacity", "own_capacity", "shared_capacity"])
@pytest.mark.parametrize(
    "capacities", [{}, {"baseline": 0.0, "offload": 0.0}, {"baseline": 9.0, "offload": 0.0}]
)
def test_a_capacity_that_is_0_or_unknown_is_no_ratio(name: str, capacities: dict[str, float]) -> None:
    simulations = virtual(OWN, SHARED)
    of = summary(MEASURED, simulations)
    if name == "capacity":
        of = of.model_copy(update={"capacity": {"baseline": 300.0} | capacities})
    else:
        of = of.model_copy(update={"virtual": simulations.model_copy(update={name: capacities})})
    found = predict(of)
    assert found is not None
    if name == "own_capacity":
        assert found.capacity is None
    else:
        assert found.capacity is not None and (found.capacity.low, found.capacity.sign) == (None, 0)
    assert all(answers(of)) and forest(of, found)[-1].measured


def test_a_prediction_has_claims_capacity_and_checks() -> None:
    found = predict(summary(MEASURED, virtual(OWN, SHARED)))
    assert found is not None
    assert (found.load, found.lead.name, found.lead.reference) == ("0.5", "offload", "baseline")
    verdicts = {name: claim.verdict for name, claim in found.claims.items()}
    assert verdicts == {CPU: Verdict.LESS, PULL: Verdict.MORE}
    assert found.recommendation is Recommendation.IF_SERVERS_LIMIT
    # 0.75 of the capacity in the model, where 0.83 was measured: a factor of 10/9.
    capacity = found.capacity
    assert capacity is not None
    assert (capacity.lead, capacity.reference, capacity.ratio) == (1_500, 1_000, 1.5)
    assert (capacity.low, capacity.high) == pytest.approx((1.35, 1.5 / 0.9))
    assert [(metric.name, *both) for metric, *both in found.checks] == [
        (CPU, SHARED[CPU], MEASURED[CPU]),
        (PULL, SHARED[PULL], MEASURED[PULL]),
    ]


@pytest.mark.parametrize("later", [[(300.0, 400.0)], [(500.0, 100.0), (200.0, 300.0)], [(0.0, 9.0)]])
def test_the_error_of_a_capacity_is_of_all_its_measurements(later: list[tuple[float, float]]) -> None:
    """The distance of the model's logarithm to the mean of the measured ones; an unknown ratio is none."""
    checks = [
        CapacityCheck(when="end", capacity={"baseline": baseline, "offload": offload})
        for baseline, offload in later
    ]
    of = summary(MEASURED, virtual(OWN, SHARED)).model_copy(update={"capacity_checks": checks})
    logs = [np.log(250 / 300), *(np.log(offload / baseline) for baseline, offload in later if baseline)]
    error = abs(np.log(300 / 400) - np.mean(logs))
    found = predict(of)
    assert found is not None and found.capacity is not None
    assert found.capacity.ratio == 1.5
    assert (found.capacity.low, found.capacity.high) == pytest.approx(
        (1.5 * np.exp(-error), 1.5 * np.exp(error))
    )


def test_counts_are_no_check_of_the_model() -> None:
    more = {"rpcs_per_step": of_ratio(0.1, 0.05, 0.15)}
    found = predict(summary(MEASURED | more, virtual(OWN | more, SHARED | more)))
    assert found is not None and "rpcs_per_step" in found.claims
    assert "rpcs_per_step" not in {metric.name for metric, *_ in found.checks}


def test_the_prediction_for_a_dedicated_switch_comes_before_the_measured_answer() -> None:
    of = summary(MEASURED, virtual(OWN, SHARED))
    first, second = answers(of)
    assert [second] == answers(of.model_copy(update={"virtual": None}))
    assert any("-36 % [-46, -24]" in text for text in first.texts())
    assert any("-30 % [-35, -25]" in text for text in second.texts())


def first_screen(of: Summary) -> Result:
    record = RunRecord.model_validate(MINIMAL_RECORD | {"config": {"workers": 4, "servers": 2}})
    return result(record, of)


def test_the_figures_of_a_verdict_name_their_column() -> None:
    shown = first_screen(summary(MEASURED, virtual(OWN, SHARED)))
    assert tuple(shown.columns) == ("dedicated switch", "this machine")
    simulated, measured = shown.figures
    assert says(simulated, "simulated", "36 %", "CPU") and "30 %" not in simulated
    assert says(measured, "measured", "30 %", "CPU") and "36 %" not in measured
    assert says(shown.verdict, "dedicated", "simulated") and "%" not in shown.verdict
    # A run with one column has its figures in the verdict.
    for of, column in (
        (summary(MEASURED, None), "this machine"),
        (summary(MEASURED, None).model_copy(update={"virtual_s": 1.0}), "simulated"),
    ):
        shown = first_screen(of)
        assert (tuple(shown.columns), shown.figures) == (("", column), ())
        assert "30 % less CPU" in shown.verdict


def test_a_difference_within_the_error_of_the_model_is_not_claimed() -> None:
    shared = {**SHARED, PULL: of_ratio(0.3, 0.28, 0.32)}
    found = predict(summary(MEASURED, virtual(OWN, shared)))
    assert found is not None and found.claims[PULL].verdict is Verdict.CONTAINS_ZERO


def test_a_run_that_was_not_simulated_has_one_answer() -> None:
    assert len(answers(summary(MEASURED, None))) == 1
    assert predict(summary(MEASURED, virtual(OWN, SHARED, load="0.8"))) is None


def test_an_unsound_run_predicts_nothing_for_a_dedicated_switch() -> None:
    found = summary(MEASURED, virtual(OWN, SHARED)).model_copy(update={"overflows": 1})
    assert [each.is_trusted for each in answers(found)] == [False]


# -- costs that were measured on a busy machine

BUSY = DisturbedBlocks(blocks=24, disturbed=5, reasons={"others' CPU": 5})
QUIET = DisturbedBlocks(blocks=24, disturbed=0, reasons={})
ONCE = DisturbedBlocks(blocks=24, disturbed=1, reasons={"steal": 1})
PACKETS = {"ps_packets_per_step": of_ratio(-0.4, -0.41, -0.39)}


def judged(*sources: DisturbedBlocks, **changes: Comparison) -> Summary:
    measured, own, shared = ({**of, **PACKETS} for of in (MEASURED, OWN, SHARED))
    found = virtual({**own, **changes}, shared).model_copy(update={"sources": sources})
    return summary(measured, found)


@pytest.mark.parametrize("kind", ["block", CLOSED_LOOP])
def test_costs_of_too_many_disturbed_blocks_claim_nothing_but_counts(kind: str) -> None:
    of = judged(QUIET, BUSY.model_copy(update={"kind": kind}), pull_mean=of_ratio(0.3, 0.28, 0.32))
    found = predict(of)
    assert found is not None and found.recommendation is Recommendation.COSTS_WITHHELD
    assert {name: claim.verdict for name, claim in found.claims.items()} == {
        CPU: Verdict.DISTURBED, PULL: Verdict.DISTURBED, "ps_packets_per_step": Verdict.LESS,
    }  # fmt: skip
    assert found.capacity is not None and found.capacity.sign == 0
    dedicated, measured = answers(of)
    assert (dedicated.is_trusted, measured.is_trusted) == (False, True)
    assert says(dedicated.headline, 5, 24, kind + "s", "CPU") and "%" not in dedicated.headline
    shown = first_screen(of)
    assert not shown.is_trusted and shown.verdict == dedicated.headline and not shown.figures
    effects = {row.title: row.dedicated for row in shown.rows}
    tones = {title: effect.tone for title, effect in effects.items() if effect is not None}
    assert tones.pop("packets to servers") == "better" and set(tones.values()) == {""}
    assert len(tones) == 3
    [reason] = [line for line in shown.row_reasons if line.startswith("dedicated switch")]
    assert says(reason, "servers' CPU", "time of a pull", "capacity", 5, 24)


def test_measured_times_that_are_withheld_withhold_costs_of_records_without_sources() -> None:
    of = judged()
    load = of.loads["0.5"].model_copy(update={"invalidated_by": {"offload": {"time": BUSY}}})
    found = predict(of.model_copy(update={"loads": {"0.5": load}}))
    assert found is not None and found.claims[CPU].verdict is Verdict.DISTURBED
    assert found.recommendation is Recommendation.COSTS_WITHHELD


def test_costs_of_few_disturbed_blocks_widen_intervals_by_the_largest_error() -> None:
    """0.6 was simulated, and 0.65 to 0.75 of the baseline were measured: a factor of 1.25 at most."""
    quiet, once = (predict(judged(QUIET, each)) for each in (QUIET, ONCE))
    assert quiet is not None and once is not None
    narrow, wide = (found.claims[CPU].change for found in (quiet, once))
    assert narrow == widen(OWN[CPU], SHARED[CPU], MEASURED[CPU])
    assert (wide.ratio_low, wide.ratio_high) == pytest.approx((0.63 / 1.25 - 1, 0.65 * 1.25 - 1))
    assert once.claims[CPU].verdict is Verdict.LESS
    # The same of pulls, of which the error is not less than 5 points on either side.
    assert quiet.claims[PULL].verdict is Verdict.MORE
    assert once.claims[PULL].verdict is Verdict.CONTAINS_ZERO
    # Counts are not fitted.
    assert once.claims["ps_packets_per_step"].change == quiet.claims["ps_packets_per_step"].change


def test_cpu_time_of_other_programs_below_the_bounds_widens_intervals() -> None:
    """All that they took may have been taken from one of the two arms: a factor of 1.1 for 5 %."""
    quiet, taken = (predict(judged(QUIET.model_copy(update={"taken": share}))) for share in (0.0, 0.05))
    assert quiet is not None and taken is not None and quiet.capacity is not None
    narrow, wide = (found.claims[CPU].change for found in (quiet, taken))
    assert (narrow.ratio_low, narrow.ratio_high) != (None, None)
    assert 1 + (wide.ratio_low or 0) == pytest.approx((1 + (narrow.ratio_low or 0)) / 1.1)
    assert 1 + (wide.ratio_high or 0) == pytest.approx((1 + (narrow.ratio_high or 0)) * 1.1)
    assert taken.capacity is not None and quiet.capacity.high is not None
    assert taken.capacity.high == pytest.approx(quiet.capacity.high * 1.1)
    assert taken.claims["ps_packets_per_step"].change == quiet.claims["ps_packets_per_step"].change


def test_the_error_of_a_capacity_reaches_to_the_farthest_measurement_if_a_block_was_disturbed() -> None:
    check = CapacityCheck(when="end", capacity={"baseline": 300.0, "offload": 400.0})
    for sources, measured in ((QUIET, np.sqrt(250 / 300 * 400 / 300)), (ONCE, 400 / 300)):
        found = predict(judged(sources).model_copy(update={"capacity_checks": [check]}))
        assert found is not None and found.capacity is not None
        assert found.capacity.high == pytest.approx(1.5 * measured / (300 / 400))


@pytest.mark.parametrize(("factor", "is_claimed"), [(1.99, True), (2.01, False)])
@pytest.mark.parametrize("what", ["slower", "faster", "capacity"])
def test_a_simulation_that_is_far_from_its_run_claims_nothing_but_counts(
    what: str, factor: float, is_claimed: bool
) -> None:
    """Nothing was disturbed, as far as is known."""
    of = judged(QUIET)
    simulated = of.virtual
    assert simulated is not None
    if what == "capacity":
        capacity = {"baseline": 300 * factor, "offload": 250.0}
        simulated = simulated.model_copy(update={"shared_capacity": capacity})
    else:
        scale = factor if what == "slower" else 1 / factor
        pull = SHARED[PULL].model_copy(
            update={"reference": scale * 100, "value": scale * 110, "difference": scale * 10}
        )
        simulated = simulated.model_copy(update={"shared": {**simulated.shared, PULL: pull}})
    found = predict(of.model_copy(update={"virtual": simulated}))
    assert found is not None and (found.recommendation is not Recommendation.COSTS_WITHHELD) is is_claimed
    assert found.claims[CPU].verdict is (Verdict.LESS if is_claimed else Verdict.MISFIT)
    assert found.claims["ps_packets_per_step"].verdict is Verdict.LESS


@pytest.mark.parametrize(
    ("placement", "is_separate"),
    [
        ({"switch": 1, "servers": [2, 3], "workers": [4, 5, 6, 7], "rest": 0}, True),
        ({"switch": 1, "servers": [2, 3], "workers": [4, 5, 6], "rest": 0}, False),
        ({"switch": 2, "servers": [2, 3], "workers": [4, 5, 6, 7], "rest": 0}, False),
        ({"switch": "any", "servers": 0, "workers": 1, "rest": "any"}, False),
        ({}, False),
    ],
)
def test_a_run_has_separate_cpus_if_each_agent_and_the_switch_has_a_cpu(
    placement: dict[str, object], is_separate: bool
) -> None:
    record = a_record(config={"workers": 4, "servers": 2}, placement=placement)
    assert record.has_separate_cpus == is_separate


def test_a_default_run_has_separate_cpus_from_eight_cpus_on() -> None:
    for cpus in (7, 8, 16):
        placed = place(PlacementConfig(), servers=2, workers=4, cpus=[*range(cpus)])
        record = a_record(config={"workers": 4, "servers": 2}, placement=placed.as_record())
        assert record.has_separate_cpus == (cpus >= 8)


def test_the_notes_say_whether_a_run_on_separate_cpus_checks_the_simulation() -> None:
    of = summary(MEASURED, virtual(OWN, SHARED))
    for is_separate in (False, True):
        notes = first_screen_notes(
            answer(of.model_copy(update={"has_separate_cpus": is_separate})),
            of.model_copy(update={"has_separate_cpus": is_separate}),
            "this machine", has_rows=True, has_dedicated=True,
        )  # fmt: skip
        assert ("not validated on separate cores" in notes[0]) != is_separate
        assert says(notes[1], "a CPU for each worker") == is_separate
