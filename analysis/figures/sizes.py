from __future__ import annotations

from collections.abc import Sequence

from analysis.figures.distribution import discrete_distributions
from analysis.figures.latency import CDF, cdf_series
from analysis.figures.model import Axis, Figure, Panel
from analysis.figures.source import Source, curves
from foundation.logs.columns import TRANSFERS


def response_sizes(sources: Sequence[Source]) -> Figure:
    """Return Fig. 6: CDF of the size of responses, in bytes of UDP payload."""
    distributions_of_source = {
        id(source): discrete_distributions(source.rpc, "response_bytes", ["arm", "op"]) for source in sources
    }
    panels = [
        Panel(
            op,
            [
                cdf_series(curve, distributions_of_source[id(curve.source)][curve.arm, op])
                for curve in curves(sources)
                if (curve.arm, op) in distributions_of_source[id(curve.source)]
            ],
        )
        for op in TRANSFERS
    ]
    return Figure(
        "fig-06",
        "Size of responses",
        Axis("response, bytes"),
        CDF,
        panels,
        kind="steps",
        caption="[DDL] Fig. 6: a pull's response carries values and is far larger than a push's, "
        "which is an acknowledgement.",
        facts={
            (curve.name, op, "p50"): distribution.quantile(0.5)
            for curve in curves(sources)
            for (arm, op), distribution in distributions_of_source[id(curve.source)].items()
            if arm == curve.arm
        },
    )
