from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.figures.figure_data import Source, curves
from analysis.figures.model import Axis, Figure, Panel, Series


def reported_losses(sources: Sequence[Source]) -> Figure:
    series = [
        Series(
            curve.name,
            np.arange(1, len(losses) + 1, dtype=np.float64),
            np.array(losses, dtype=np.float64),
            curve.colour,
            curve.dash,
        )
        for curve in curves(sources, with_repetitions=len(sources) == 1)
        if (losses := curve.source.loss_curves.get(curve.arm))
    ]
    return Figure(
        "loss",
        "Loss that the script reports",
        Axis("report"),
        Axis("loss", max_alike_spread=0.0),
        [Panel("", series)] if series else [],
        caption="Point n: mean of all workers' n-th reports. Arms take turns, and each trains its own model.",
    )
