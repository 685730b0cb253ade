from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from pydantic import Field

from analysis.page.build import fragment
from analysis.wording import ReportTable, Row, plain
from experiment.progress import progress_bar
from experiment.run_config import config_of
from foundation.concurrency import run_interruptibly
from foundation.logs.access.log_files import LogFiles, paths_of
from foundation.logs.access.steps import read_steps
from foundation.protocol.memory import size_text
from hotline_policies.miss_ratio.curve import MissRatioCurve, MissRatios, miss_ratios
from hotline_policies.miss_ratio.output import figure_of
from hotline_policies.miss_ratio.top_k import TopKShares, top_k_shares
from hotline_policies.settings import MissRatioSettings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
"""Cache sizes in the table, as shares of the keys."""


class MissRatio(MissRatios):
    """Miss ratios of LRU caches of all sizes."""

    top_k: tuple[TopKShares, ...] = Field(exclude=True)
    """Share of each table's accesses that its hottest keys take."""

    def plot(self) -> Figure:
        """Draw the share of accesses that miss against the size of the cache."""
        return figure_of(self)

    def _repr_html_(self) -> str:
        return fragment(None, [table(self)])


def miss_ratio(files: LogFiles, **settings: object) -> MissRatio:
    """Return the miss ratios of logs, as `hotline policies miss-ratio` does: `miss_ratio("log.csv")`.

    The settings are those of `hotline_policies.settings.MissRatioSettings`. Raises `ConfigError` and
    `DataError`.
    """
    chosen = config_of(MissRatioSettings, settings)
    options = chosen.read_options
    with TemporaryDirectory() as scratch:
        with progress_bar("reading") as progress:
            steps = run_interruptibly(lambda: read_steps(paths_of(files), options, Path(scratch), progress))
        dims = chosen.unpadded_dims_of_keys(steps)
        with progress_bar("accesses") as progress:
            ratios = run_interruptibly(lambda: miss_ratios(steps, chosen.sample, progress, dims))
        return MissRatio.model_construct(**dict(ratios), top_k=tuple(top_k_shares(steps)))


def table(ratios: MissRatios) -> ReportTable:
    titles = [f"{share:g} of the keys" for share in _SHARES]
    rows: list[Row] = [(each.table, *map(plain, _format_cells(each))) for each in ratios.curves]
    notes = (*error_sentences(ratios), *ratios.notes)
    return ReportTable(
        f"{ratios.name}: misses of LRU caches",
        ("table", "accesses", "keys", "all rows", *titles),
        rows,
        notes,
    )


def error_sentences(ratios: MissRatios) -> tuple[str, ...]:
    """Return a sentence on the error of sampled curves; an empty tuple for exact curves."""
    if ratios.sample is None:
        return ()
    max_error = max(each.max_error for each in ratios.curves)
    sample_phrase = f"from a sample of {ratios.sample:.2%} of the keys"
    return (f"{sample_phrase}; 95 % intervals are at most ±{100 * max_error:.1f} points",)


def _format_cells(curve: MissRatioCurve) -> list[str]:
    ratios = (curve.at(max(1, share * curve.keys)) for share in _SHARES)
    memory = size_text(round(curve.keys * curve.slot_bytes))
    return [f"{curve.accesses:,}", f"{curve.keys:,}", memory, *(f"{ratio:.1%}" for ratio in ratios)]
