"""Restrict a trace to its hottest parameters, for workers that add up one vector together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hosts.keys import KeySpace
from hosts.workload.trace import Samples, Trace, prefix_sums

_BATCHES_PER_PART = 256
"""Mini-batches that are restricted at once; temporary arrays for all lanes may exceed memory."""


def restrict_to_hottest(trace: Trace, limit: int) -> Trace:
    """Return the trace with only the `limit` most frequent parameters, the lower positions in a tie."""
    if trace.space.size <= limit:
        return trace
    counts = np.bincount(trace.position, minlength=trace.space.size)
    selected_positions = np.sort(np.argsort(-counts, kind="stable")[:limit])
    new_positions = np.full(trace.space.size, -1, np.int64)
    new_positions[selected_positions] = np.arange(limit)
    is_selected = new_positions[trace.position] >= 0
    return replace(
        trace,
        space=KeySpace(limit, trace.space.keys(selected_positions).astype(np.uint64)),
        key_start=prefix_sums(is_selected)[trace.key_start],
        position=new_positions[trace.position[is_selected]].astype(np.uint32),
        samples=None
        if trace.samples is None
        else _restrict_samples(trace.samples, trace.key_start, is_selected),
    )


def _restrict_samples(
    samples: Samples, key_start: NDArray[np.int64], is_selected: NDArray[np.bool_]
) -> Samples:
    """Return samples without the removed lanes; `key_start` [B + 1] counts all lanes."""
    parts = list(_restrict_batches(samples, key_start, is_selected))
    columns, lengths, entry_counts, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    x = None if samples.x is None else values
    return replace(samples, length=lengths, entry_start=prefix_sums(entry_counts), column=columns, x=x)


def _restrict_batches(
    samples: Samples, key_start: NDArray[np.int64], is_selected: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64], NDArray[np.float32]]]:
    for first in range(0, len(key_start) - 1, _BATCHES_PER_PART):
        last = min(first + _BATCHES_PER_PART, len(key_start) - 1)
        starts, lane_starts = samples.entry_start[first : last + 1], key_start[first : last + 1]
        n_selected = prefix_sums(is_selected[lane_starts[0] : lane_starts[-1]])
        entries = slice(starts[0], starts[-1])
        # For each feature, the first lane of its mini-batch.
        first_lanes = np.repeat(lane_starts[:-1] - lane_starts[0], np.diff(starts))
        lanes_of_features = first_lanes + samples.column[entries]
        is_remaining = n_selected[lanes_of_features + 1] > n_selected[lanes_of_features]
        lengths = samples.length[samples.batch_start[first] : samples.batch_start[last]]
        n_features = prefix_sums(is_remaining)
        # The new `column` and `length`, then the number of features of each mini-batch, then the new `x`.
        yield (
            (n_selected[lanes_of_features] - n_selected[first_lanes])[is_remaining].astype(np.uint32),
            np.diff(n_features[prefix_sums(lengths)]).astype(np.uint32),
            np.diff(n_features[starts - starts[0]]),
            np.empty(0, np.float32) if samples.x is None else samples.x[entries][is_remaining],
        )
