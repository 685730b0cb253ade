"""Miss-ratio curves of an access log, exact or of a sample of its keys, for all keys and for each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from foundation.logs.access.block import mix
from foundation.logs.access.steps import KEY, Accesses, Progress, Steps
from foundation.protocol.header import KEY_BYTES, VALUE_BYTES
from foundation.settings import Strict
from hotline_policies.miss_ratio.reuse import reuse_histograms

ALL = "all"
POINTS_PER_DECADE = 20
_BINS = 1000  # bins of sizes from 0 to all keys, for TorchRec
_CHUNK = 1 << 18  # accesses read at once
SUBSAMPLES = 8
"""Number of parts of a sample; the error is estimated from the standard deviation of their curves."""
_Z = 1.96  # half width of a 95 % interval in standard errors


class MissRatioCurve(Strict):
    table: str
    accesses: int
    keys: int
    first_accesses: int
    """Accesses that miss in any cache; estimated if only a sample of the keys was read."""
    keys_per_step: float
    sizes: tuple[int, ...]
    miss_ratio: tuple[float, ...]
    error: tuple[float, ...] | None = None
    """Half width of a 95 % interval for each size; None for an exact curve."""
    slot_bytes: float = KEY_BYTES + VALUE_BYTES
    """Bytes of a slot: a key, and the values of its row, on average over all keys."""

    def at(self, size: float) -> float:
        return float(np.interp(size, (0, *self.sizes), (1.0, *self.miss_ratio)))

    @property
    def max_error(self) -> float:
        return max(self.error or (0.0,))


class MissRatios(Strict):
    name: str
    sample: float | None
    curves: tuple[MissRatioCurve, ...]
    """Curve of all keys in one cache, then one for each table in a separate cache."""
    notes: tuple[str, ...]

    @property
    def by_table(self) -> tuple[MissRatioCurve, ...]:
        return self.curves[1:] or self.curves


def miss_ratios(
    steps: Steps, sample: float | None, progress: Progress, dims: NDArray[np.integer] | None = None
) -> MissRatios:
    """Return the curves of a log; `sample` is the share of keys to sample, or None for exact curves.

    `dims` [distinct] are the values of the row of each key; None means 1.
    """
    dims = np.ones(len(steps.keys), np.int64) if dims is None else dims
    passes = 2 if steps.tables else 1
    done = 0

    def report(accesses: int) -> None:
        nonlocal done
        done += accesses
        progress(done, passes * len(steps.accesses))

    groups: list[tuple[NDArray[np.uint16], tuple[str, ...]]] = [
        (np.zeros(len(steps.keys), np.uint16), (ALL,))
    ]
    if steps.tables:
        groups.append((steps.table_of, steps.tables))
    curves = [
        curve.model_copy(update={"slot_bytes": KEY_BYTES + VALUE_BYTES * dim})
        for group_of, names in groups
        for curve, dim in zip(
            _curves(steps, group_of, names, sample, report),
            _mean_dims(dims, group_of, len(names)),
            strict=True,
        )
    ]
    return MissRatios(name=steps.name, sample=sample, curves=tuple(curves), notes=steps.notes)


def _mean_dims(dims: NDArray[np.integer], group_of: NDArray[np.uint16], groups: int) -> list[float]:
    """Return the mean dim of the keys of each group; 1 for a group without keys."""
    keys = np.bincount(group_of, minlength=groups)
    values = np.bincount(group_of, weights=dims, minlength=groups)
    return [total / n if n else 1.0 for total, n in zip(values.tolist(), keys.tolist(), strict=True)]


def _curves(
    steps: Steps, group_of: NDArray[np.uint16], names: tuple[str, ...], sample: float | None,
    report: Callable[[int], None],
) -> Iterator[MissRatioCurve]:  # fmt: skip
    if sample is not None:
        yield from _sampled_curves(steps, group_of, names, sample, report)
        return
    groups = len(names)
    keys, accesses = np.bincount(group_of, minlength=groups), np.zeros(groups, np.int64)
    histograms = list(reuse_histograms(_chunks(steps, report, group_of, accesses), group_of, groups))
    for name, histogram, n, total in zip(names, histograms, keys, accesses, strict=True):
        sizes = sizes_up_to(int(n))
        # Element 0 of a histogram counts first accesses, which miss.
        ratio = 1 - np.cumsum(histogram)[sizes] / total + histogram[0] / total
        yield _curve(name, steps, total, n, histogram[0], sizes, ratio)


def _sampled_curves(
    steps: Steps, group_of: NDArray[np.uint16], names: tuple[str, ...], sample: float,
    report: Callable[[int], None],
) -> Iterator[MissRatioCurve]:  # fmt: skip
    """Yield the curves of sampled keys (SHARDS: Waldspurger et al., FAST 2015, with its adjustment).

    Distances are those among sampled keys, divided by `sample`. The expected number of sampled accesses
    less their actual number is added to the hits of the smallest size: a few frequent keys cause most of the
    difference.
    """
    key_hashes = mix(steps.keys)
    is_sampled = key_hashes < np.uint64(min(int(sample * 2**64), 2**64 - 1))
    sample_ids = np.cumsum(is_sampled, dtype=np.uint32) - 1
    groups, keys = len(names), np.bincount(group_of, minlength=len(names))
    sampled_groups = group_of[is_sampled]
    # Keys are hashed again, as all sampled keys have small hashes.
    part_of_key = (mix(key_hashes[is_sampled]) % np.uint64(SUBSAMPLES)).astype(np.uint16)
    accesses = np.zeros(groups, np.int64)

    def sampled_chunks() -> Iterator[Accesses]:
        for chunk in _chunks(steps, report, group_of, accesses):
            chunk_keys = chunk & KEY
            yield sample_ids[chunk_keys[is_sampled[chunk_keys]]]

    chunks = [chunk.copy() for chunk in sampled_chunks()]
    histograms = list(reuse_histograms(chunks, sampled_groups, groups))
    part_histograms = list(
        reuse_histograms(chunks, sampled_groups * np.uint16(SUBSAMPLES) + part_of_key, groups * SUBSAMPLES)
    )
    for group, (name, n, total) in enumerate(zip(names, keys, accesses, strict=True)):
        sizes = sizes_up_to(int(n))
        # In smaller caches a part of the sample would have less than one slot.
        sizes = sizes[sizes >= min(SUBSAMPLES / sample, sizes[-1])]
        ratio = _scaled_miss_ratio(histograms[group], sizes, sample, int(total))
        part_ratios = [
            _scaled_miss_ratio(each, sizes, sample / SUBSAMPLES, int(total))
            for each in part_histograms[group * SUBSAMPLES : (group + 1) * SUBSAMPLES]
        ]
        half_widths = _Z * np.std(part_ratios, axis=0, ddof=1) / np.sqrt(SUBSAMPLES)
        first_accesses = round(int(histograms[group][0]) / sample)
        yield _curve(name, steps, total, n, first_accesses, sizes, ratio, half_widths)


def _scaled_miss_ratio(
    counts: NDArray[np.int64], sizes: NDArray[np.int64], share: float, accesses: int
) -> NDArray[np.float64]:
    expected_accesses = share * accesses
    hits = np.append(0, np.cumsum(counts[1:])) + (expected_accesses - counts.sum())
    slots = np.minimum((sizes * share).astype(np.int64), len(counts) - 1)
    ratio: NDArray[np.float64] = np.clip(1 - hits[slots] / expected_accesses, 0, 1)
    return ratio


def sizes_up_to(keys: int) -> NDArray[np.int64]:
    count = max(2, int(np.log10(max(keys, 1)) * POINTS_PER_DECADE))
    logarithmic = np.geomspace(1, max(keys, 1), count).round()
    return np.unique(np.append(logarithmic, np.ceil(bin_edges(keys)[1:]))).astype(np.int64)


def bin_edges(keys: int) -> NDArray[np.float64]:
    return np.linspace(0, keys, min(_BINS, max(keys, 1)) + 1)


def _curve(
    name: str, steps: Steps, accesses: np.int64, keys: np.int64, first_accesses: int,
    sizes: NDArray[np.int64], ratio: NDArray[np.float64], error: NDArray[np.float64] | None = None,
) -> MissRatioCurve:  # fmt: skip
    return MissRatioCurve(
        table=name,
        accesses=int(accesses),
        keys=int(keys),
        first_accesses=int(first_accesses),
        keys_per_step=int(accesses) / len(steps),
        sizes=tuple(sizes.tolist()),
        miss_ratio=tuple(ratio.tolist()),
        error=None if error is None else tuple(error.tolist()),
    )


def _chunks(
    steps: Steps, report: Callable[[int], None], group_of: NDArray[np.uint16], accesses: NDArray[np.int64]
) -> Iterator[Accesses]:
    # Add each chunk's accesses by group to `accesses`: it is complete only after the last chunk.
    for start in range(0, len(steps.accesses), _CHUNK):
        chunk = np.array(steps.accesses[start : start + _CHUNK])
        accesses += (
            len(chunk) if len(accesses) == 1 else np.bincount(group_of[chunk & KEY], minlength=len(accesses))
        )
        yield chunk
        report(len(chunk))
