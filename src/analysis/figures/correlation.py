from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from analysis.figures.connections import WINDOW_US
from analysis.figures.figure_data import Source
from analysis.figures.model import Axis, Figure, Panel, Series, colour_of

_SAMPLE = 1_000_000  # sample size in RPCs, for which a rank correlation is accurate to 0.002
# Column of `correlations` -> title.
CAUSES = {"size": "size", "frequency": "RPCs", "connections": "workers"}
METRICS = {"ps_proc": "PS_proc", "n_tx": "N_tx"}


def arithmetic_share(pull: float, push: float) -> float:
    # PS_proc of a pull is that of a push without the arithmetic.
    return (push - pull) / push


def correlations(source: Source) -> dict[str, dict[tuple[str, str], float]]:
    """Return arm -> (cause, metric) -> Spearman's rank correlation, over RPCs that a server has answered."""
    # Frequency and connections are RPCs and unique workers at that server in the window of 1,000 µs in which
    # the RPC was sent, by its worker's clock. The workers' clocks must be synchronised.
    window = pl.col("t_send_us") // WINDOW_US
    # RPCs that the switch alone answered have no PS_proc.
    at_server = source.rpc.filter(pl.col("ps_proc_us") > 0)
    rpc_count = at_server.select(pl.len()).collect(engine="streaming").item()
    # All RPCs of a sample of windows that fits into memory.
    sample = at_server.filter(window % (rpc_count // _SAMPLE + 1) == 0)
    rows = (
        sample.select(
            "arm",
            worker=pl.col("worker").hash(),
            ps=pl.col("ps").hash(),
            window=window,
            size=pl.col("request_bytes").cast(pl.Int64) + pl.col("response_bytes"),
            ps_proc="ps_proc_us",
            n_tx="n_tx_us",
        )
        .collect(engine="streaming")
        .with_columns(
            frequency=pl.len().over("arm", "ps", "window"),
            connections=pl.col("worker").n_unique().over("arm", "ps", "window"),
        )
    )
    pairs = [(cause, metric) for cause in CAUSES for metric in METRICS]
    spearman = {
        f"{cause}, {metric}": pl.corr(cause, metric, method="spearman").cast(pl.Float64)
        for cause, metric in pairs
    }
    return {
        str(arm): dict(zip(pairs, rows_of_arm.select(**spearman).row(0), strict=True))
        for (arm,), rows_of_arm in sorted(rows.partition_by("arm", as_dict=True).items())
    }


def correlation_figure(sources: Sequence[Source]) -> Figure:
    coefficients_by_arm = correlations(sources[0])
    panels = [
        Panel(
            title,
            [
                Series(
                    arm,
                    list(CAUSES.values()),
                    np.array([coefficients[cause, metric] for cause in CAUSES]),
                    colour_of(arm, number),
                )
                for number, (arm, coefficients) in enumerate(coefficients_by_arm.items())
            ],
        )
        for metric, title in METRICS.items()
    ]
    return Figure(
        "sec-3-2",
        "Correlation of PS_proc and N_tx with size, frequency and connections",
        Axis(""),
        Axis("rank correlation (Spearman)"),
        panels,
        kind="points",
        caption="Pan et al. §3.2. size: bytes of request and response; RPCs: number at the server in the "
        "1,000 µs in which the RPC was sent; workers: number of workers that sent them. At 1 the metric "
        "always grows with the cause, at -1 it always falls, at 0 it does neither.",
    )
