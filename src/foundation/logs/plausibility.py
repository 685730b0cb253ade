"""Check that the times in a cluster's logs are in µs: other units imply too many RPCs at a time.

By Little's law, the sum of all latencies divided by the duration of the log is the mean number of outstanding
RPCs. Latencies in a smaller unit, or send times in a larger one, make it at least a thousand times too large.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from foundation.errors import DataError

_MAX_OUTSTANDING = 1_000  # mean number of outstanding RPCs of a worker above which a unit must be wrong
_MAX_OUTSTANDING_IF_UNIX = 100
"""The same limit if the first time, read in s, ms or ns since 1970, is a date in `_UNIX_RANGE_S`."""
_UNIX_RANGE_S = (1.2e9, 2.5e9)
"""Unix times from 2008 to 2049."""
_MIN_MEAN_US = 0.5  # minimum mean duration of an RPC between two processes, µs
_UNITS_PER_S = {"s": 1, "ms": 1_000, "ns": 1_000_000_000}


def check_units(file: Path, rpc: pl.LazyFrame) -> None:
    """Raise `DataError` if the times of rows (t_send_us, latency_us, worker) are implausible in µs."""
    send_time, latency = pl.col("t_send_us"), pl.col("latency_us")
    totals = rpc.select(
        first=send_time.min(),
        span=send_time.max() - send_time.min(),
        longest=latency.max(),
        total=latency.sum(),
        mean=latency.mean(),
        workers=pl.col("worker").n_unique(),
    ).collect(engine="streaming")
    row = totals.row(0, named=True)
    if row["mean"] < _MIN_MEAN_US:
        raise DataError(
            f"{file}: an RPC takes {row['mean']:.3g} µs on average; expected times in µs in the columns w_*, "
            "ps_* and n_tx_us, got another unit (seconds or milliseconds?)"
        )
    unit = _unit_as_date(row["first"])
    outstanding = row["total"] / (row["span"] + row["longest"]) / row["workers"]
    # In µs, a date in s or ms would be minutes or weeks, a date in ns 38,000 years or more.
    if unit == "ns" or outstanding > (_MAX_OUTSTANDING_IF_UNIX if unit else _MAX_OUTSTANDING):
        raise DataError(
            f"{file}: column t_send_us spans {row['span']:,}, in which each worker has {outstanding:,.0f} "
            f"outstanding RPCs, of {row['mean']:,.0f} µs on average; expected µs in all times, got "
            f"{f't_send_us in {unit}, as its size suggests' if unit else 'another unit in some columns'}"
        )


def _unit_as_date(time: int) -> str | None:
    earliest_s, latest_s = _UNIX_RANGE_S
    return next(
        (
            unit
            for unit, units_per_s in _UNITS_PER_S.items()
            if earliest_s * units_per_s <= time <= latest_s * units_per_s
        ),
        None,
    )
