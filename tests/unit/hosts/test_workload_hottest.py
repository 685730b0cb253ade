"""A trace of its hottest parameters only, against plain lists of mini-batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosts.keys import KeySpace
from hosts.workload import hottest as module
from hosts.workload.hottest import restrict_to_hottest
from hosts.workload.trace import Samples, Trace

PARAMETERS = 9
batches = st.lists(
    # A mini-batch is its samples: a label, and distinct parameters with their values.
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.dictionaries(st.integers(0, PARAMETERS - 1), st.floats(-2, 2, width=32), max_size=5),
        ),
        max_size=3,
    ),
    min_size=1, max_size=5,
)  # fmt: skip
Batches = list[list[tuple[int, dict[int, float]]]]


def parameters_of(batch: list[tuple[int, dict[int, float]]]) -> list[int]:
    return sorted({key for _, sample in batch for key in sample})


def trace_of(found: Batches, has_values: bool) -> Trace:
    """Return one worker's trace; keys are 7 times their position."""
    positions = [parameters_of(batch) for batch in found]
    features = [
        [(at.index(key), x) for _, sample in batch for key, x in sample.items()]
        for batch, at in zip(found, positions, strict=True)
    ]
    flat = [feature for batch in features for feature in batch]
    samples = Samples(
        batch_start=np.cumsum([0, *map(len, found)]),
        label=np.array([label for batch in found for label, _ in batch], np.uint8),
        length=np.array([len(sample) for batch in found for _, sample in batch], np.uint32),
        entry_start=np.cumsum([0, *map(len, features)]),
        column=np.array([column for column, _ in flat], np.uint16),
        x=np.array([x for _, x in flat], np.float32) if has_values else None,
    )
    return Trace(
        "made", 1, len(found), KeySpace(PARAMETERS, np.arange(PARAMETERS, dtype=np.uint64) * 7),
        np.cumsum([0, *map(len, positions)]),
        np.array([key for each in positions for key in each], np.uint32), samples,
    )  # fmt: skip


def read(trace: Trace, has_values: bool) -> Batches:
    """Return its mini-batches by keys."""
    found: Batches = []
    for step in range(trace.steps):
        batch = trace.batch(1, step)
        assert batch.label is not None and batch.sample is not None and batch.column is not None
        keys = trace.space.keys(batch.positions)
        of_samples: list[dict[int, float]] = [{} for _ in batch.label]
        x = np.ones(len(batch.column), np.float32) if batch.x is None else batch.x
        assert has_values == (batch.x is not None)
        for sample, column, value in zip(batch.sample, batch.column, x, strict=True):
            of_samples[sample][int(keys[column])] = float(value)
        found.append([(int(label), each) for label, each in zip(batch.label, of_samples, strict=True)])
    return found


@pytest.mark.parametrize("has_values", [True, False], ids=["values", "ones"])
@pytest.mark.parametrize("at_once", [1, 2, 256])
@given(found=batches, maximum=st.integers(1, PARAMETERS + 1))
def test_samples_keep_their_hottest_features(
    found: Batches, maximum: int, at_once: int, has_values: bool
) -> None:
    trace = trace_of(found, has_values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCHES_PER_PART", at_once)
        hot = restrict_to_hottest(trace, maximum)
    counts = Counter(key for batch in found for key in parameters_of(batch))
    by_heat = sorted(range(PARAMETERS), key=lambda key: (-counts[key], key))
    stored = set(by_heat[:maximum])
    assert hot.space.size == min(maximum, PARAMETERS)
    assert sorted(hot.space.all().tolist()) == sorted(7 * key for key in stored)
    assert read(hot, has_values) == [
        [
            (label, {7 * key: x if has_values else 1.0 for key, x in sample.items() if key in stored})
            for label, sample in batch
        ]
        for batch in found
    ]
    assert [hot.space.keys(hot.batch(1, step).positions).tolist() for step in range(hot.steps)] == [
        [7 * key for key in parameters_of(batch) if key in stored] for batch in found
    ]


def test_an_update_log_has_no_samples() -> None:
    trace = trace_of([[(1, {3: 1.0, 5: 1.0})], [(0, {5: 1.0})]], True)
    hot = restrict_to_hottest(Trace("log", 1, 2, trace.space, trace.key_start, trace.position), 1)
    assert hot.samples is None and hot.space.all().tolist() == [35]
    assert [hot.batch(1, step).positions.tolist() for step in (0, 1)] == [[0], [0]]
