"""What numpy computes where numba is missing equals what compiled code computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.access import log_files, steps, uncompiled
from foundation.logs.access.dictionary import Dictionary
from hosts.model import logistic
from switch_harness.effort import examples
from switch_harness.wording import says

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(60))
@given(SEEDS, st.integers(1, 4), st.sampled_from([3, 500, 2**62]))
def test_a_dictionary_without_numba_gives_the_same_indices(seed: int, blocks: int, keys: int) -> None:
    random = np.random.default_rng(seed)
    compiled, plain = Dictionary(), uncompiled.UncompiledDictionary()
    has_tables = bool(random.integers(2))
    for _ in range(blocks):
        block = random.integers(0, keys, random.integers(0, 300)).astype(np.uint64)
        tables = (block % 3).astype(np.uint16) if has_tables else None
        assert plain.encode(block, tables).tolist() == compiled.encode(block, tables).tolist()
        assert len(plain) == len(compiled)
    found, expected = (list[NDArray[Any]](each.take_sorted()) for each in (plain, compiled))
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


@settings(max_examples=examples(60))
@given(SEEDS)
def test_steps_are_sorted_and_counted_alike_without_numba(seed: int) -> None:
    random = np.random.default_rng(seed)
    keys, length = int(random.integers(1, 50)), int(random.integers(1, 400))
    rank = random.permutation(keys).astype(np.uint32)
    accesses = random.integers(0, keys, length).astype(np.uint32)
    accesses |= np.where(random.random(length) < 0.5, steps.PULL, 0).astype(np.uint32)
    inner = np.sort(random.integers(0, length + 1, random.integers(0, 20)))
    starts = np.array([0, *inner, length], np.int64)
    found, expected = accesses.copy(), accesses.copy()
    bounds, expected_bounds = (
        uncompiled.sort_steps(found, starts, rank), steps._sort_steps_plain(expected, starts, rank),
    )  # fmt: skip
    assert bounds.dtype == np.int64 and bounds.tolist() == expected_bounds.tolist()
    assert found[: bounds[-1]].tolist() == expected[: bounds[-1]].tolist()
    for ignored_bits in (0, steps.PULL):
        counts, expected_counts = np.ones((2, keys), np.int64)
        uncompiled.count(accesses, ignored_bits, counts)
        steps._count_plain(accesses, ignored_bits, expected_counts)
        assert counts.tolist() == expected_counts.tolist()


@settings(max_examples=examples(60))
@given(SEEDS, st.booleans())
def test_the_model_computes_the_same_bits_without_numba(seed: int, has_numbers: bool) -> None:
    random = np.random.default_rng(seed)
    samples, columns, features = 7, 11, 90
    sample, column = random.integers(0, samples, features), random.integers(0, columns, features)
    x = random.normal(size=features) if has_numbers else np.zeros(0)
    weights, residual = random.normal(size=columns), random.normal(size=samples)
    for plain, compiled, size, factors in (
        (logistic._add_terms_by_numpy, logistic._add_terms, samples, weights),
        (logistic._add_gradients_by_numpy, logistic._add_gradients, columns, residual),
    ):
        found, expected = np.zeros((2, size))
        plain(found, sample, column.astype(np.uint32), x, factors)
        compiled(expected, sample, column.astype(np.uint32), x, factors)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("last", [0.5, 1e300, -1e300, np.nan, np.inf])
def test_numbers_are_rounded_and_clipped_alike_without_numba(last: float) -> None:
    numbers = np.array([0.4, -0.6, 1.5, 2.5, 3e9, -3e9, last, 7.0])
    found, expected = np.zeros((2, len(numbers)), np.int32)
    length = logistic._round_finite_by_numpy(numbers, 2.0, found)
    assert length == logistic._round_finite(numbers, 2.0, expected)
    assert found.tolist() == expected.tolist()


def test_a_log_compressed_by_zstd_names_the_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_files, "_ZSTANDARD_ERRORS", ())
    (tmp_path / "log.csv.zst").write_bytes(log_files.ZSTD + b"rest")
    with pytest.raises(DataError) as raised:
        log_files.read_head(tmp_path / "log.csv.zst")
    assert says(raised.value, "log.csv.zst", "zstandard")
