"""A model as a table of layers: the bytes of its gradients, and the times of backward and forward.

The columns are `layer`, `bytes`, `backward_us` and `forward_us`, as CSV or Parquet, in the order of the
forward pass; backward goes from the last row to the first. The column `forward_us` may be empty, in all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs.parts import atomic_path
from foundation.logs.update_log import UNREADABLE, UpdateLog, first_line

COLUMNS = ("layer", "bytes", "backward_us", "forward_us")
MAX_US = 1e9
"""Longest plausible time of a layer's backward or forward; a longer time is probably in another unit."""
MAX_BYTES = 2**40  # of a layer
MAX_LAYERS = 20_000
SUFFIXES = (".csv", ".parquet")

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Layers:
    """n layers in the order of the forward pass; a layer is any part whose gradient is ready as a whole."""

    names: tuple[str, ...]
    sizes: NDArray[np.int64]
    """[n]: bytes of the gradient."""
    backward_us: Values
    """[n]: time from the gradient of the next layer to the gradient of this layer."""
    forward_us: Values | None = None
    """[n]: time of forward, if known."""

    @property
    def bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def total_backward_us(self) -> float:
        return float(self.backward_us.sum())

    def sizes_and_ready_times(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return bytes[n] and times[n] in µs of backward at which gradients are ready, last layer first."""
        return self.sizes[::-1], np.cumsum(self.backward_us[::-1])

    def gradients(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        sizes, ready_times = self.sizes_and_ready_times()
        return sizes[sizes > 0], ready_times[sizes > 0]  # layers without bytes send nothing

    def scale_times(self, factor: float) -> Layers:
        forward = None if self.forward_us is None else factor * self.forward_us
        return Layers(self.names, self.sizes, factor * self.backward_us, forward)

    def by_module(self) -> Layers:
        modules = [name.removesuffix(".weight").removesuffix(".bias") for name in self.names]
        starts = [i for i, name in enumerate(modules) if i == 0 or name != modules[i - 1]]
        return Layers(
            tuple(modules[i] for i in starts),
            np.add.reduceat(self.sizes, starts),
            np.add.reduceat(self.backward_us, starts),
            None if self.forward_us is None else np.add.reduceat(self.forward_us, starts),
        )


def read_layers(path: Path) -> Layers:
    log = UpdateLog.open(path, "a table of layers is CSV or Parquet")
    missing_columns = [name for name in COLUMNS if name not in log.names]
    if missing_columns:
        raise DataError(f"{path}: has no column {', '.join(missing_columns)}; expected {', '.join(COLUMNS)}")
    try:
        raw_table = _scan(log).select(COLUMNS).head(MAX_LAYERS + 1).collect()
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read: {first_line(error)}") from error
    if not 0 < raw_table.height <= MAX_LAYERS:
        row_count = "no row" if not raw_table.height else f"more than {MAX_LAYERS:,} rows"
        raise DataError(f"{path}: has {row_count}; expected one row per layer")
    try:
        typed_table = raw_table.select(
            pl.col("layer").cast(pl.String),
            _whole_numbers(raw_table["bytes"]).cast(pl.Int64, strict=False),
            pl.col("backward_us", "forward_us").cast(pl.Float64, strict=False),
        )
        empty = raw_table["forward_us"].cast(pl.String).fill_null("") == ""
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path}: has a column of an unexpected type: {first_line(error)}") from error
    lacks_forward = bool(empty.all())
    checked_columns = COLUMNS[:-1] if lacks_forward else COLUMNS
    first_row_number = 1 if log.is_parquet else 2  # the first line of a CSV has the names
    _check_values(path, raw_table, typed_table, checked_columns, first_row_number)
    forward = None if lacks_forward else typed_table["forward_us"].to_numpy()
    return Layers(
        tuple(typed_table["layer"]),
        typed_table["bytes"].to_numpy(),
        typed_table["backward_us"].to_numpy(),
        forward,
    )


def write_layers(layers: Layers, path: Path) -> None:
    check_suffix(path)
    table = pl.DataFrame(
        {
            "layer": layers.names,
            "bytes": layers.sizes,
            "backward_us": layers.backward_us,
            "forward_us": [None] * len(layers.names) if layers.forward_us is None else layers.forward_us,
        },
        schema_overrides={"forward_us": pl.Float64},
    )
    with atomic_path(path) as partial:
        if path.suffix == ".csv":
            table.write_csv(partial)
        else:
            table.write_parquet(partial)


def check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a name that ends with {' or '.join(SUFFIXES)}")


def _whole_numbers(column: pl.Series) -> pl.Series:
    """Replace fractions by nulls, since a cast would truncate them."""
    return column.set(column != column.floor(), None) if column.dtype.is_float() else column


def _scan(log: UpdateLog) -> pl.LazyFrame:
    if log.is_parquet:
        return pl.scan_parquet(log.path, glob=False)
    return pl.scan_csv(log.path, glob=False, infer_schema=False)


def _constraint(name: str) -> tuple[pl.Expr, str]:
    column = pl.col(name)
    if name == "layer":
        return column.str.len_chars() > 0, "a name expected"
    if name == "bytes":
        return column.is_between(0, MAX_BYTES), "a whole number of bytes from 0 to 2^40 expected"
    return column.is_finite() & column.is_between(0, MAX_US), "a time in µs from 0 to 10^9 expected"


def _check_values(
    path: Path,
    raw_table: pl.DataFrame,
    typed_table: pl.DataFrame,
    names: tuple[str, ...],
    first_row_number: int,
) -> None:
    unit = "row" if first_row_number == 1 else "line"
    faults = typed_table.select((~_constraint(name)[0].fill_null(False)).alias(name) for name in names)
    faulty_rows = faults.with_row_index("row").filter(pl.any_horizontal(names)).head(1)
    for row in faulty_rows.iter_rows(named=True):
        name = next(name for name in names if row[name])
        value, row_number = raw_table[name][row["row"]], row["row"] + first_row_number
        value_text = "empty" if value in (None, "") else repr(value)
        raise DataError(f"{path}, {unit} {row_number}: column {name} is {value_text}; {_constraint(name)[1]}")
    repeated_rows = typed_table.with_row_index("row").filter(~pl.col("layer").is_first_distinct()).head(1)
    for row in repeated_rows.iter_rows(named=True):
        raise DataError(
            f"{path}, {unit} {row['row'] + first_row_number}: column layer is {row['layer']!r} again; "
            "expected each layer once"
        )
    if not int(typed_table["bytes"].sum()):
        raise DataError(f"{path}: all bytes are 0; expected the sizes of the gradients")
