"""The duration of an all-reduce by first principles ([BOTTLENECK]): bandwidth, additions, start-up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from math import ceil, log2
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from foundation.errors import DataError
from foundation.logs.update_log import UNREADABLE, UpdateLog, first_line
from foundation.settings import Strict
from hotline_dense.catalogue import MODELS_FOLDER
from hotline_dense.layers import Values

Aggregation = Literal["ring", "tree", "servers", "switch"]
AGGREGATIONS: tuple[Aggregation, ...] = get_args(Aggregation)
AGGREGATION_TITLES: dict[Aggregation, str] = {
    "ring": "ring",
    "tree": "tree",
    "servers": "parameter servers",
    "switch": "switch that sums",
}
MIN_GBIT, MAX_GBIT = 1.0, 400.0
MIN_COMPRESSION, MAX_COMPRESSION = 1.0, 100.0
PositiveShare = Annotated[float, Field(gt=0, le=1)]


class DenseNetwork(Strict):
    """The network of a training job. Links are full duplex and carry gradients only."""

    workers: int = Field(default=64, ge=1, le=100_000)
    """Number of workers."""
    gbit: float = Field(default=10.0, ge=0.001, le=100_000)
    """Bandwidth of each link, in Gbit/s."""
    compression: float = Field(default=1.0, ge=1, le=10_000)
    """Compression ratio; compressing takes no time, and additions are of uncompressed gradients."""
    utilisation: PositiveShare | tuple[tuple[float, PositiveShare], ...] = 1.0
    """Achieved share of a link's bandwidth, or a curve of (Gbit/s, share), interpolated linearly and clamped:
    a CSV file with the columns gbit,utilisation."""
    aggregation: Aggregation = "ring"
    """Place where gradients are summed."""
    servers: int | None = Field(default=None, ge=1, le=100_000)
    """Number of parameter servers; None means as many as workers."""
    startup_us: float = Field(default=0.0, ge=0, le=1e6)
    """Start-up time of each step of a collective, in µs."""
    per_machine: int = Field(default=1, ge=1, le=100_000)
    """Workers (GPUs) of a machine, which share its network card of `gbit`; within it, bytes take no time."""
    sums_locally: bool = False
    """With several workers a machine: they add up their gradients before the machine sends them, as BytePS
    and Horovod's hierarchical all-reduce do."""

    @model_validator(mode="after")
    def _check_curve(self) -> DenseNetwork:
        if isinstance(self.utilisation, tuple):
            rates = [rate for rate, _ in self.utilisation]
            if not rates or any(following <= previous for previous, following in pairwise(rates)):
                raise ValueError(f"utilisation: expected Gbit/s that rise from point to point, got {rates}")
        return self

    def describe(self) -> list[tuple[str, str]]:
        is_curve = isinstance(self.utilisation, tuple)
        rows = [
            ("workers", f"{self.workers:,}"),
            ("a link", f"{self.gbit:g} Gbit/s"),
            ("utilisation", "a curve" if is_curve else f"{self.utilisation:.0%}"),
            ("compression", f"{self.compression:g}×" if self.compression > 1 else "none"),
            ("aggregation", AGGREGATION_TITLES[self.aggregation]),
            ("start-up", f"{self.startup_us:g} µs for each step of a collective"),
        ]
        if self.servers:
            rows.append(("servers", f"{self.servers:,}"))
        if self.per_machine > 1:
            sums = ", which sum before the machine sends" if self.sums_locally else ""
            rows.append(("workers of a machine and its network card", f"{self.per_machine:,}{sums}"))
        return rows


def reduce_us(
    network: DenseNetwork,
    size: ArrayLike,
    gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:
    """Return the µs to reduce `size` bytes; arrays broadcast; `gbit` and `compression` override `network`."""
    size = np.asarray(size, dtype=np.float64)
    rate = np.asarray(network.gbit if gbit is None else gbit, dtype=np.float64)
    ratio = np.asarray(network.compression if compression is None else compression, dtype=np.float64)
    # One Gbit/s is 1,000 bits per µs.
    one_way = 8 * size / (1e3 * rate * utilisation_at(network, rate) * ratio)
    n, card_workers = network.workers, min(network.per_machine, network.workers)
    if n == 1:
        return 0 * one_way  # a zero of the same shape
    if not network.sums_locally:
        return _between_machines(network, size, one_way, n, card_workers)
    # Reduce-scatter and all-gather among the workers of a machine; then one of each machine sends.
    steps = card_workers - 1
    local: Values = steps * addition_us(size / card_workers) + 2 * steps * network.startup_us
    machines = ceil(n / card_workers)
    return local + (_between_machines(network, size, one_way, machines, 1) if machines > 1 else 0 * one_way)


def _between_machines(
    network: DenseNetwork, size: Values, one_way: Values, n: int, card_workers: int
) -> Values:
    """Return the µs in which `n` senders reduce `size` bytes, of which `card_workers` share a network card.

    `one_way` is the time of the whole buffer over a card.
    """
    machines = ceil(n / card_workers)
    if network.aggregation == "ring":
        # Reduce-scatter and all-gather: n - 1 steps each, of 1/n of the buffer. The ring visits machine after
        # machine, so that a card carries one of its links in each direction.
        wire = 2 * one_way * (n - 1) / n if machines > 1 else 0 * one_way
        return wire + (n - 1) * addition_us(size / n) + 2 * (n - 1) * network.startup_us
    if network.aggregation == "tree":
        # Whole buffers go up a binomial tree and down again; its lower levels are within machines.
        levels, levels_between = ceil(log2(card_workers)) + ceil(log2(machines)), ceil(log2(machines))
        return levels_between * 2 * one_way + levels * (addition_us(size) + 2 * network.startup_us)
    if network.aggregation == "servers":
        # Each server receives a share of each buffer from all senders over its link, and sends the sum back.
        m = network.servers or network.workers
        return (
            2 * one_way * max(float(card_workers), n / m)
            + (n - 1) * addition_us(size / m)
            + 2 * network.startup_us
        )
    # A switch adds while packets pass: sums come down at the rate at which gradients go up.
    return card_workers * one_way + network.startup_us


def utilisation_at(network: DenseNetwork, gbit: ArrayLike) -> Values:
    if isinstance(network.utilisation, tuple):
        rates, shares = zip(*network.utilisation, strict=True)
        return _interpolate(gbit, rates, shares)
    return np.asarray(network.utilisation)


def addition_us(size: ArrayLike) -> Values:
    """Return the µs to add two vectors of `size` bytes on [BOTTLENECK]'s GPU, interpolated and clamped."""
    return _interpolate(size, *_addition_table())


def _interpolate(positions: ArrayLike, x: Sequence[float] | Values, y: Sequence[float] | Values) -> Values:
    points: Values = np.asarray(positions, dtype=np.float64)
    return np.asarray(np.interp(points, x, y))


@cache
def _addition_table() -> tuple[Values, Values]:
    table = pl.read_csv(MODELS_FOLDER / "additions.csv")
    return table["bytes"].to_numpy().astype(np.float64), table["us"].to_numpy()


def read_utilisation(path: Path) -> tuple[tuple[float, float], ...]:
    log = UpdateLog.open(path, "a curve of utilisation is CSV")
    columns = ["gbit", "utilisation"]
    if set(columns) - set(log.names):
        raise DataError(f"{path}: its columns are {', '.join(log.names)}; expected {', '.join(columns)}")
    try:
        table = pl.read_csv(path, columns=columns, infer_schema=False).select(columns)
    except UNREADABLE as error:
        raise DataError(f"{path}: cannot be read: {first_line(error)}") from error
    points: list[tuple[float, float]] = []
    # The first line has the names.
    for line, texts in enumerate(table.iter_rows(), start=2):
        rate, share = (
            _parse_number(path, line, column, text) for column, text in zip(columns, texts, strict=True)
        )
        if not rate > (points[-1][0] if points else 0):
            raise DataError(
                f"{path}, line {line}: column gbit is {rate:g}; expected more than in the previous line"
            )
        if not 0 < share <= 1:
            raise DataError(f"{path}, line {line}: column utilisation is {share:g}; a share up to 1 expected")
        points.append((rate, share))
    if not points:
        raise DataError(f"{path}: has no row; expected one row per bandwidth")
    return tuple(points)


def _parse_number(path: Path, line: int, column: str, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        found_text = "empty" if not text else repr(text)
        raise DataError(f"{path}, line {line}: column {column} is {found_text}; a number expected") from None
