"""All-reduces that share a network, and schedulers against the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotline_dense import DenseError
from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule, simulate
from hotline_dense.answers import StepTimes, step_times
from hotline_dense.catalogue import open_model
from hotline_dense.gaps import gaps, gaps_of, random_models
from hotline_dense.layers import Layers
from hotline_dense.schedulers import SCHEDULERS, asc_wfbp, beam, best, fixed_buffers, mg_wfbp, optimum, wfbp
from switch_harness.effort import examples
from switch_harness.wording import mentions
from tools.evidence.result import published_table

NET = AlphaBetaModel(alpha_us=100, beta_ns=1000, sharing=0.5)
"""A byte takes 1 µs."""


def layers(sizes: Sequence[int], backward_us: Sequence[float]) -> Layers:
    """Make layers from values in the order of backward: the last layer first."""
    names = tuple(f"layer{i}" for i in range(len(sizes)))
    return Layers(names, np.array(sizes[::-1], dtype=np.int64), np.array(backward_us[::-1], dtype=np.float64))


def reference_ends(
    ready: Sequence[float], sizes: Sequence[int], at_once: int, net: AlphaBetaModel
) -> list[float]:
    """Return the end of each buffer by a simple model that shares the remaining work from event to event."""
    end_times, remaining = [0.0] * len(ready), dict[int, list[float]]()
    now, waiting = 0.0, list(range(len(ready)))
    while waiting or remaining:
        while waiting and len(remaining) < at_once and ready[waiting[0]] <= now:
            first = waiting.pop(0)
            remaining[first] = [net.alpha_us, float(sizes[first])]
        moving = [i for i, (startup, _) in remaining.items() if startup <= 1e-9]
        rate = 1 / (net.beta_ns / 1e3 * (1 + net.sharing * (len(moving) - 1))) if moving else 0.0
        until = [size / rate if i in moving else startup for i, (startup, size) in remaining.items()]
        if waiting and len(remaining) < at_once:
            until.append(ready[waiting[0]] - now)
        step = min(until)
        now += step
        for i, rest in list(remaining.items()):
            rest[i in moving] -= step * (rate if i in moving else 1)
            if i in moving and rest[1] <= 1e-6:
                end_times[i] = now
                del remaining[i]
    return end_times


def test_a_single_all_reduce_takes_alpha_and_beta_times_its_bytes() -> None:
    timing = simulate(layers([50, 30], [10, 20]), NET, GradientSchedule("", (1,)))
    assert (timing.start_times.tolist(), timing.end_times.tolist()) == ([30], [210])
    assert (timing.sizes.tolist(), timing.ready_times.tolist(), timing.end_us) == ([80], [30], 210)


def test_all_reduces_one_at_a_time_wait_for_the_previous_all_reduce() -> None:
    timing = simulate(layers([50, 30], [10, 20]), NET, GradientSchedule("", (0, 1)))
    assert timing.start_times.tolist() == [10, 160]
    assert timing.end_times.tolist() == [160, 290]


def test_two_all_reduces_at_once_slow_each_other_while_both_move_bytes() -> None:
    """Both begin to move at 110: 100 bytes each at 1.5 µs a byte. Start-ups do not interfere."""
    both = simulate(layers([100, 100], [10, 0]), NET, GradientSchedule("", (0, 1), 2))
    assert both.start_times.tolist() == [10, 10] and both.end_times.tolist() == [260, 260]
    halved = NET.model_copy(update={"sharing": 1.0})
    fair = simulate(layers([100, 100], [10, 0]), halved, GradientSchedule("", (0, 1), 2))
    assert fair.end_times.tolist() == [310, 310]
    # The second moves from 160 on, when 50 of the first are left; both together until 235, then it is alone.
    late = simulate(layers([100, 100], [10, 50]), NET, GradientSchedule("", (0, 1), 2))
    assert late.end_times.tolist() == [235, 285]


def test_no_more_all_reduces_are_under_way_than_allowed() -> None:
    timing = simulate(layers([10] * 5, [1] * 5), NET, GradientSchedule("", (0, 1, 2, 3, 4), 2))
    spans = list(zip(timing.start_times, timing.end_times, strict=True))
    for at in timing.start_times:
        assert sum(start <= at < end for start, end in spans) <= 2
    assert timing.start_times[2] == timing.end_times[0]


_MODELS = st.lists(st.tuples(st.integers(1, 500), st.floats(0, 300)), min_size=1, max_size=7)


@given(_MODELS, st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_end_times_equal_the_reference_simulation(
    rows: list[tuple[int, float]], at_once: int, sharing: float
) -> None:
    net = NET.model_copy(update={"sharing": sharing})
    given_layers = layers([size for size, _ in rows], [us for _, us in rows])
    timing = simulate(given_layers, net, GradientSchedule("", tuple(range(len(rows))), at_once))
    expected = reference_ends(timing.ready_times.tolist(), timing.sizes.tolist(), at_once, net)
    np.testing.assert_allclose(timing.end_times, expected, rtol=1e-6)


def test_layers_without_parameters_are_not_sent() -> None:
    toy = layers([0, 40, 0, 20, 0], [1, 2, 3, 4, 5])
    timing = simulate(toy, NET, wfbp(toy, NET))
    assert timing.sizes.tolist() == [40, 20] and timing.ready_times.tolist() == [3, 10]
    assert all(simulate(toy, NET, each(toy, NET)).sizes.sum() == 60 for each in SCHEDULERS.values())


# -- schedulers


def test_mg_wfbp_merges_where_the_link_is_busy_or_waiting_is_cheap() -> None:
    big = 10**6
    net = AlphaBetaModel(alpha_us=100, beta_ns=1)
    # The second is ready 50 µs behind the first, which is less than α; the third when both have been sent.
    toy = layers([big, big, big], [10, 50, 5000])
    assert mg_wfbp(toy, net).last_gradients == (1, 2)
    # The third is ready while the link is busy with the first.
    toy = layers([big, big, big], [10, 200, 300])
    assert mg_wfbp(toy, net).last_gradients == (0, 2)
    # Fewer than 8,192 values do not go alone, however long it takes.
    assert mg_wfbp(layers([100, big, big], [10, 9000, 9000]), net).last_gradients == (1, 2)


def test_asc_wfbp_does_not_wait() -> None:
    big = 10**6
    net = AlphaBetaModel(alpha_us=100, beta_ns=1, max_at_once=1)
    assert asc_wfbp(layers([big, big, big], [10, 50, 5000]), net).last_gradients == (0, 1, 2)
    assert asc_wfbp(layers([100, big, big], [10, 9000, 9000]), net).last_gradients == (0, 1, 2)
    assert asc_wfbp(layers([big, big, big], [10, 200, 300]), net).last_gradients == (0, 2)


def test_asc_wfbp_runs_all_reduces_at_once_only_if_sharing_costs_less_than_waiting() -> None:
    toy = layers([1000, 1000], [10, 10])
    gentle = AlphaBetaModel(alpha_us=100, beta_ns=1000, sharing=0.5, max_at_once=3)
    assert asc_wfbp(toy, gentle).at_once == 2
    harsh = gentle.model_copy(update={"sharing": 5.0})
    assert asc_wfbp(toy, harsh).at_once == 1


def test_fixed_buffers_follow_the_limits_of_their_preset() -> None:
    mib = 2**20
    toy = layers([30 * mib, 40 * mib, mib, mib], [1, 2, 6000, 3])
    assert fixed_buffers(toy, NET).last_gradients == (1, 2, 3)
    assert fixed_buffers(toy, NET, "pytorch-ddp-2").last_gradients == (0, 1, 3)
    assert fixed_buffers(toy, NET, "whole").last_gradients == (3,)
    assert wfbp(toy, NET).last_gradients == (0, 1, 2, 3)


def all_schedules(n: int, max_at_once: int) -> list[GradientSchedule]:
    ways = [(*cut, n - 1) for count in range(n) for cut in combinations(range(n - 1), count)]
    return [GradientSchedule("", way, at_once) for way in ways for at_once in range(1, max_at_once + 1)]


@given(_MODELS, st.integers(1, 3))
def test_the_optimum_is_the_best_of_all_plans(rows: list[tuple[int, float]], max_at_once: int) -> None:
    net = NET.model_copy(update={"max_at_once": max_at_once})
    toy = layers([size for size, _ in rows], [us for _, us in rows])
    end_times = [simulate(toy, net, schedule).end_us for schedule in all_schedules(len(rows), max_at_once)]
    assert simulate(toy, net, optimum(toy, net)).end_us == pytest.approx(min(end_times))


def test_the_optimum_is_for_few_layers() -> None:
    with pytest.raises(DenseError, match=mentions(12, 13)):
        optimum(layers([1] * 13, [1] * 13), NET)


@pytest.mark.parametrize("seed", range(3))
def test_with_one_all_reduce_at_a_time_the_beam_search_finds_the_optimum(seed: int) -> None:
    net = AlphaBetaModel(max_at_once=1)
    for toy in random_models(examples(20), seed):
        optimal = simulate(toy, net, optimum(toy, net)).end_us
        assert simulate(toy, net, beam(toy, net, 1)).end_us == pytest.approx(optimal)


@cache
def gaps_of_random(count: int) -> dict[str, list[float]]:
    """Return the gaps of each scheduler; *best* is within 1 % of the optimum and never worse than another."""
    net = AlphaBetaModel()
    found = list(random_models(count, 1))
    assert {len(toy.names) for toy in found} == set(range(2, 13))
    each = dict[str, list[float]]()
    for toy in found:
        gap = gaps_of(toy, net)
        for name, value in gap.items():
            each.setdefault(name, []).append(value)
        assert -1e-9 <= gap["best"] <= 0.01
        assert all(gap["best"] <= other + 1e-12 for other in gap.values())
    return each


def test_over_a_hundred_models_the_best_plan_has_a_smaller_gap_than_asc_wfbp_and_wfbp() -> None:
    each = gaps_of_random(100)
    assert set(each) == {*SCHEDULERS}
    assert np.mean(each["best"]) < np.mean(each["asc-wfbp"]) < np.mean(each["wfbp"])


@pytest.mark.soak
def test_gaps_over_a_thousand_models_equal_the_published_gaps() -> None:
    """The figures are those that are published."""
    found = [
        [np.mean(of), np.quantile(of, 0.99), np.max(of), np.mean(np.array(of) < 1e-9)]
        for of in gaps_of_random(1000).values()
    ]
    published = [row.cells for row in published_table("dense-gaps").rows]
    assert 100 * np.array(found) == pytest.approx(np.array(published))


def test_gaps_are_added_up() -> None:
    expected: list[tuple[int, int]] = []
    found = gaps(AlphaBetaModel(), 20, 3, lambda done, total: expected.append((done, total)))
    each = [gaps_of(toy, AlphaBetaModel())["wfbp"] for toy in random_models(20, 3)]
    assert set(found) == set(SCHEDULERS) and expected[-1] == (19, 20)
    assert found["wfbp"].mean == pytest.approx(np.mean(each))
    assert found["wfbp"].largest == pytest.approx(max(each))
    assert found["wfbp"].optimal_share == pytest.approx(np.mean(np.array(each) < 1e-9))


def test_every_gradient_is_sent_once_by_every_scheduler() -> None:
    for toy in random_models(50, 5):
        for scheduler in (*SCHEDULERS.values(), best):
            schedule = scheduler(toy, AlphaBetaModel())
            last = list(schedule.last_gradients)
            assert last == sorted(set(last)) and last[-1] == len(toy.names) - 1
            assert simulate(toy, AlphaBetaModel(), schedule).sizes.sum() == toy.bytes


NAMES = ("resnet152", "densenet201", "inceptionv4", "bert-base", "bert-large")
SLOW = {"densenet201", "inceptionv4", "resnet152"}
"""Models with hundreds of layers, which take seconds each."""


@cache
def times(name: str, step_ms: float | None = None, tensors: bool = False) -> StepTimes:
    """Return the step times under each scheduler, on [ASC]'s network."""
    model, net = open_model(name, step_ms and step_ms * 1e3), AlphaBetaModel()
    if not tensors:
        model = replace(model, layers=model.layers.by_module())
    return step_times(model, net, [scheduler(model.layers, net) for scheduler in SCHEDULERS.values()])


@pytest.mark.parametrize(
    "at",
    [pytest.param(at, id=name, marks=[pytest.mark.soak] * (name in SLOW)) for at, name in enumerate(NAMES)],
)
def test_steps_of_the_papers_models(at: int) -> None:
    """The figures are those that are published."""
    expected = published_table("dense-schedulers").rows
    found = times(NAMES[at])
    assert found.model == f"{expected[at].name} (estimate)" and len(expected) == len(NAMES)
    speedups = [found.speedup("ASC-WFBP", other) for other in ("WFBP", "MG-WFBP")]
    *step_ms, over_wfbp, _, over_mg_wfbp = expected[at].cells
    assert [*step_ms, over_wfbp, over_mg_wfbp] == pytest.approx([*found.step_ms.values(), *speedups])
    assert found.step_ms["best"] == min(found.step_ms.values()) > found.compute_ms


@pytest.mark.soak
def test_the_documented_reasons_explain_the_differences_to_the_paper() -> None:
    """packages/dense/README.md: another batch, separate tensors, and merging beyond ASC's."""
    assert times("densenet201", step_ms=334).speedup("ASC-WFBP", "WFBP") == pytest.approx(2.37, abs=0.006)
    assert times("resnet152", tensors=True).speedup("ASC-WFBP", "WFBP") == pytest.approx(2.39, abs=0.006)
    assert times("resnet152").speedup("best", "ASC-WFBP") == pytest.approx(1.27, abs=0.006)
