"""Files of miss-ratio curves: a figure, CSV, and input for TorchRec's planner and HugeCTR's caches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from foundation.errors import DataError
from foundation.logs.parts import atomic_path, write_text
from hotline_policies.miss_ratio.curve import MissRatioCurve, MissRatios, bin_edges
from hotline_policies.miss_ratio.top_k import TopKShares

SUFFIXES = (".csv", ".json", ".pdf", ".png", ".svg")
_MAX_DRAWN = 8  # tables with the most accesses, besides the curve of all keys


def check_suffix(path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path}: expected a suffix of {', '.join(SUFFIXES)}, got {path.suffix or 'none'!r}")


def write(ratios: MissRatios, path: Path) -> None:
    check_suffix(path)
    if path.suffix == ".json":
        write_text(path, ratios.model_dump_json(indent=2) + "\n")
        return
    with atomic_path(path) as partial:
        if path.suffix == ".csv":
            frame(ratios).write_csv(partial)
        else:
            figure_of(ratios).savefig(partial, format=path.suffix[1:], dpi=150)


def frame(ratios: MissRatios) -> pl.DataFrame:
    return pl.DataFrame(
        [
            (
                each.table,
                size,
                size * each.slot_bytes,
                ratio,
                None if each.error is None else each.error[index],
            )
            for each in ratios.curves
            for index, (size, ratio) in enumerate(zip(each.sizes, each.miss_ratio, strict=True))
        ],
        schema={
            "table": pl.String,
            "size": pl.Int64,
            "bytes": pl.Float64,
            "miss_ratio": pl.Float64,
            "error": pl.Float64,
        },
        orient="row",
    )


def figure_of(ratios: MissRatios) -> Figure:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis = figure.subplots()
    total_curve, *tables = ratios.curves
    drawn_curves = [total_curve, *sorted(tables, key=lambda each: -each.accesses)[:_MAX_DRAWN]]
    for index, each in enumerate(drawn_curves):
        sizes, ratio = np.array(each.sizes), 100 * np.array(each.miss_ratio)
        (line,) = axis.semilogx(sizes, ratio, label=each.table, linewidth=1 if index else 2)
        if each.error is not None:
            error = 100 * np.array(each.error)
            axis.fill_between(sizes, ratio - error, ratio + error, color=line.get_color(), alpha=0.2)
    axis.legend(loc="lower left", frameon=False, fontsize="small")
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axis.set_xlabel("slots of an LRU cache")
    axis.set_ylabel("accesses that miss, %")
    axis.set_ylim(0, 100)
    axis.grid(alpha=0.25)
    return figure


def write_torchrec(ratios: MissRatios, path: Path) -> None:
    """Write the arguments of TorchRec's `EmbeddingOffloadStats` and `CacheParams` by table, as JSON."""
    write_text(path, json.dumps({each.table: torchrec_of(each) for each in ratios.by_table}, indent=2) + "\n")


def torchrec_of(curve: MissRatioCurve) -> dict[str, object]:
    """Return TorchRec's statistics of a table.

    `height` is the number of keys in the log, `expected_lookups` that of a mini-batch. Bins of
    `mrc_hist_counts` divide 0 to `height` equally, and count accesses by their stack distance; first accesses
    are in no bin. `cacheability` is the area under the miss-ratio curve of these bins.
    """
    edges = bin_edges(curve.keys)
    counts = curve.accesses * np.diff([1 - curve.at(size) for size in np.ceil(edges)])
    total = counts.sum()
    miss_shares = 1 - np.append(0, np.cumsum(counts)) / total if total else np.zeros(len(edges))
    load_factors = edges / curve.keys
    return {
        "stats": {
            "cacheability": float(np.trapezoid(miss_shares, load_factors)),
            "expected_lookups": round(curve.keys_per_step),
            "mrc_hist_counts": counts.tolist(),
            "height": curve.keys,
        },
        "cache_params": {
            "algorithm": "LRU",
            # The size with the largest difference of its share of the hits and its share of the keys.
            "load_factor": float(load_factors[np.argmax(1 - miss_shares - load_factors)]),
        },
    }


def write_hugectr(shares: Sequence[TopKShares], path: Path) -> None:
    write_text(path, json.dumps({each.table: each.to_hugectr() for each in shares}, indent=2) + "\n")
