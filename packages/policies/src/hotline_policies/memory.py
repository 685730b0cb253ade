"""The share of a log's updates that the switch takes, against the memory of the hot rows, by their dim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from analysis.page.build import fragment
from analysis.wording import ReportTable, Row, plain
from controller.hotset.coverage import coverage_of_split
from experiment.progress import progress_bar
from experiment.run_config import config_of
from foundation.concurrency import run_interruptibly
from foundation.errors import DataError
from foundation.logs.access.log_files import LogFiles, paths_of
from foundation.logs.access.steps import Progress, Steps, read_steps
from foundation.logs.time_split import split_updates
from foundation.protocol.memory import MemoryOfRows, memory_of_rows, rows_within, size_text
from foundation.settings import Strict
from hotline_policies.generated import LogSpec, log_spec_of, write_parts
from hotline_policies.settings import GeneratedLog, MemorySettings

COMPARED_DIMS = (1, 16, 64, 128)
OWN = "the log's"


class MemoryPoint(Strict):
    """The hot rows that a memory holds, those with most updates in the first half of the log."""

    size: int | None
    """Bytes of registers and table entries; None means all slots of the switch."""
    memory: MemoryOfRows
    """Memory that the rows take in the switch; it is below `size` if the log has fewer rows than fit."""
    share: float
    """Share of the updates in the second half of the log."""


class SharesOfDim(Strict):
    values: str
    """Values of a row, or `OWN`, with several dims."""
    points: tuple[MemoryPoint, ...]


class MemoryShares(Strict):
    name: str
    updates: int  # in the second half of the log
    keys: int
    notes: tuple[str, ...]
    dims: tuple[SharesOfDim, ...]

    @property
    def title(self) -> str:
        return f"{self.name}: share of {self.updates:,} updates that rows in the switch take, by their memory"

    @property
    def columns(self) -> tuple[str, ...]:
        sizes = [point.size for point in self.dims[0].points]
        shares = ("all slots" if size is None else size_text(size) for size in sizes)
        return ("values of a row", *shares, "rows", "registers", "entries")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the values of a row, the share at each memory, and what fits into all slots."""
        for each in self.dims:
            memory = each.points[-1].memory
            shares = (f"{point.share:.1%}" for point in each.points)
            sizes = size_text(memory.registers), size_text(memory.entries)
            yield each.values, *shares, f"{memory.rows:,}", *sizes

    def _repr_html_(self) -> str:
        rows: list[Row] = [(values, *map(plain, cells)) for values, *cells in self.rows()]
        return fragment(None, [ReportTable(self.title, self.columns, rows, self.notes)])


def memory_shares(files: LogFiles = (), **settings: object) -> MemoryShares:
    """Return a log's shares by memory, as `hotline policies memory` does: `memory_shares("log.csv", dim=64)`.

    Without files it generates a log: `memory_shares(built_in="criteo")`. The settings are those of
    `GeneratedLog` and `MemorySettings` in `hotline_policies.settings`. Raises `ConfigError` and `DataError`.
    """
    paths = paths_of(files)
    of_log = {name: settings.pop(name) for name in GeneratedLog.model_fields if name in settings}
    log_spec = log_spec_of(config_of(GeneratedLog, of_log), len(paths))
    chosen = config_of(MemorySettings, settings)
    with TemporaryDirectory() as scratch, progress_bar("reading") as progress:
        return run_interruptibly(lambda: _shares_of(paths, log_spec, chosen, Path(scratch), progress))


def _shares_of(
    paths: Sequence[Path],
    log_spec: LogSpec | None,
    settings: MemorySettings,
    scratch: Path,
    progress: Progress,
) -> MemoryShares:
    options, name = settings.read_options, None
    if log_spec is not None:
        name, options = log_spec.title, log_spec.read_options(settings)
        parts = scratch / "parts"
        parts.mkdir()
        paths = write_parts(log_spec, parts, progress)
    arrays = scratch / "arrays"
    arrays.mkdir()
    steps = read_steps(paths, options, arrays, progress)
    has_dims = settings.has_dims or steps.dim_of is not None
    dims_of: dict[str, NDArray[np.int64]] = {OWN: settings.dims_of_keys(steps)} if has_dims else {}
    dims_of |= {str(dim): np.full(len(steps.keys), dim) for dim in COMPARED_DIMS}
    return MemoryShares(
        name=name or steps.name,
        updates=int(split_updates(steps).scored.sum()),
        keys=len(steps.keys),
        notes=steps.notes if log_spec is None else (),
        dims=tuple(
            SharesOfDim(values=values, points=tuple(_points(steps, dims, settings.memory)))
            for values, dims in dims_of.items()
        ),
    )


def _points(steps: Steps, dims: NDArray[np.int64], sizes: Sequence[int]) -> Iterator[MemoryPoint]:
    updates = split_updates(steps)
    if not (updates.training.any() and updates.scored.any()):
        raise DataError(f"{steps.name}: expected updates in both halves of the log, got none in one of them")
    coverage = coverage_of_split(steps.keys, dims, updates)
    for size in (*sizes, None):
        rows = coverage.limit if size is None else min(rows_within(size, coverage.dims), coverage.limit)
        memory = memory_of_rows(coverage.dims[:rows])
        yield MemoryPoint(size=size, memory=memory, share=coverage.share(memory.rows))
