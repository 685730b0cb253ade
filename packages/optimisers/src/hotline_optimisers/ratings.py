"""Ratings in RecBole's atomic format (`.inter`) as clicks, in random order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from foundation.errors import DataError, reason_of
from hosts.workload.trace import Trace, distinct_columns
from hotline_simulator.training import trace_of_samples

_USER, _ITEM, _RATING = "user_id:token", "item_id:token", "rating:float"
MIN_CLICK_RATING = 4.0
"""Lowest rating that counts as a click."""


def count_ratings(file: Path) -> int:
    """Return the number of ratings; raises `DataError`."""
    return len(_read(file))


def _read(file: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(file, separator="\t", columns=[_USER, _ITEM, _RATING])
    except (OSError, pl.exceptions.PolarsError) as error:
        expected = f"expected columns {_USER}, {_ITEM} and {_RATING}"
        raise DataError(f"{file}: {expected}: {reason_of(error)}") from error


def ratings_trace(file: Path, workers: int, batch: int, seed: int) -> Trace:
    """Return samples of three features: a constant, the user and the item; raise `DataError`."""
    rows = _read(file)
    steps = len(rows) // (workers * batch)
    if not steps:
        raise DataError(f"{file}: expected at least {workers * batch:,} ratings, got {len(rows):,}")
    order = np.random.default_rng(seed).permutation(len(rows))[: workers * steps * batch]
    users, items = (rows[name].rank("dense").to_numpy()[order] - 1 for name in (_USER, _ITEM))
    # Position 0 is the constant's; users and then items follow.
    parameters = 1 + rows[_USER].n_unique() + rows[_ITEM].n_unique()
    features = np.stack([np.zeros_like(users), 1 + users, 1 + rows[_USER].n_unique() + items], 1)
    batches = features.astype(np.int64).reshape(workers * steps, -1)
    sizes, positions, columns = distinct_columns(batches)
    is_click = rows[_RATING].to_numpy()[order] >= MIN_CLICK_RATING
    columns = columns.reshape(features.shape)
    return trace_of_samples(file.name, workers, steps, parameters, sizes, positions, columns, is_click)
