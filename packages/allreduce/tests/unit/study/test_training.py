"""Training a log's hot set: the same mini-batches in synchronous and asynchronous designs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.designs.registry import design
from hosts.workload.generator import Shape, generate
from hotline_allreduce.simulation.measure import IDEAL
from hotline_allreduce.study.point import make_network
from hotline_allreduce.study.training import (
    ARMS,
    SMOOTHED_BINS,
    AllReduceTraining,
    AllReduceTrainingResult,
    restrict_to_hot_keys,
    train,
)
from hotline_simulator.training import LossCurve, loss_curve
from switch_harness.effort import examples

SHAPE = Shape("clicks", 2_000, 60, 0.5, 40, 4)
SYNCHRONOUS_ARMS = ("switchml", "switchml-checked", "atp", "psdense", "ring")


def job(arm: str, **changes: object) -> AllReduceTraining:
    found = AllReduceTraining(arm=arm, gbit=10.0, workers=3, servers=2, steps=8)
    return found.model_copy(update=changes)


def trained(arm: str, **changes: object) -> AllReduceTrainingResult:
    return train(job(arm, **changes), make_network(10.0), IDEAL, SHAPE)


def test_training_has_an_arm_for_each_synchronous_design() -> None:
    assert set(ARMS) == {"none", "offload", *SYNCHRONOUS_ARMS}
    lockstep_arms = {name for name, arm in ARMS.items() if design(arm.design).is_lockstep}
    assert lockstep_arms == set(SYNCHRONOUS_ARMS)


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 99), size=st.sampled_from([1, 7, 60, 5_000]), has_x=st.booleans())
def test_the_hot_part_has_the_same_samples(seed: int, size: int, has_x: bool) -> None:
    """Each mini-batch has its hot features, with their values, in their order."""
    trace = generate(SHAPE, 2, 3, seed)
    assert trace.samples is not None
    if has_x:
        x = np.arange(len(trace.samples.column), dtype=np.float32)
        trace = replace(trace, samples=replace(trace.samples, x=x))
    hot = restrict_to_hot_keys(trace, size)
    updates = np.bincount(trace.position, minlength=SHAPE.parameters)
    keys = np.sort(np.argsort(-updates, kind="stable")[: min(size, np.count_nonzero(updates))])
    assert hot.space.size == len(keys) and hot.largest_batch <= len(keys)
    for worker in (1, 2):
        for step in range(3):
            whole, part = trace.batch(worker, step), hot.batch(worker, step)
            assert whole.column is not None and whole.sample is not None and part.column is not None
            assert part.sample is not None
            of_feature = whole.positions[whole.column]
            is_hot = np.isin(of_feature, keys)
            assert keys[part.positions[part.column]].tolist() == of_feature[is_hot].tolist()
            assert part.sample.tolist() == whole.sample[is_hot].tolist()
            assert keys[part.positions].tolist() == [each for each in whole.positions if each in keys]
            if whole.x is not None and part.x is not None:
                assert part.x.tolist() == whole.x[is_hot].tolist()


def test_designs_that_wait_learn_the_same_to_the_last_bit() -> None:
    courses = [trained(arm).loss_curve.loss for arm in SYNCHRONOUS_ARMS]
    # Sums of integers do not depend on their order; that of workers within a step is by when they end.
    for other in courses[1:]:
        assert np.mean(other) == pytest.approx(np.mean(courses[0]), abs=1e-12)


def test_a_dense_step_is_an_all_reduce_of_the_whole_model() -> None:
    """60 parameters are one packet: it goes up, and its sum comes down."""
    found = trained("switchml")
    assert (found.parameters, found.waits, found.retransmissions) == (60, True, 0)
    assert (found.packets_per_step, found.bytes_per_step) == (2, 2 * 308)
    assert found.server_packets_per_step == 0
    # Up and down: 265 ns and 1 µs each; the switch: 1 µs; a ns of each host.
    assert found.step_us == pytest.approx(3 + 2 * 0.265, abs=0.01)
    assert found.steps_per_s == pytest.approx(3 * 1e6 / found.step_us, rel=0.01)


def test_servers_get_no_packets_for_values_in_the_switch() -> None:
    hot, none = trained("offload"), trained("none")
    assert hot.server_packets_per_step == 0 < none.server_packets_per_step
    assert hot.keys_per_step == none.keys_per_step < 60
    assert not (hot.waits or none.waits)


def test_one_slow_worker_delays_designs_that_wait() -> None:
    slow = {"compute_us": 1_000.0, "straggler": 4.0}
    sync, even = trained("switchml", **slow), trained("switchml", compute_us=1_000.0)
    others = trained("none", **slow)
    assert sync.steps_per_s == pytest.approx(even.steps_per_s / 4, rel=0.02)
    # Two of three go on.
    assert others.steps_per_s == pytest.approx((8 + 8 + 3) / 24 * even.steps_per_s, rel=0.02)
    # A course ends with the first worker: all 8 steps of two, and of the third two, and one that has begun.
    assert others.loss_curve.step[-1] == 8 + 8 + 3 and sync.loss_curve.step[-1] == 24


def test_a_course_is_in_the_order_of_ends() -> None:
    found = loss_curve(np.array([3_000_000, 1_000_000, 2_000_000]), np.array([0.1, 0.3, 0.2]))
    assert found == LossCurve(step=[1, 2, 3], ms=[1.0, 2.0, 3.0], loss=[0.3, 0.2, 0.1])


def test_a_loss_is_reached_when_the_mean_of_some_is_as_low() -> None:
    losses = [0.6, 0.1, *[0.5] * SMOOTHED_BINS, *[0.2] * SMOOTHED_BINS]
    numbers = [float(k + 1) for k in range(len(losses))]
    of = AllReduceTrainingResult.model_construct(loss_curve=LossCurve(step=numbers, ms=numbers, loss=losses))
    assert of.ms_to_loss(0.2 + 1e-9) == len(losses) and of.ms_to_loss(0.19) is None
    assert of.last_loss == 0.2
