from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from operator import or_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from analysis.figures.figure_files import draw
from analysis.figures.update_coverage import coverage_figure
from analysis.page.build import fragment
from analysis.wording import ReportTable, Row, plain
from controller.dask_cluster import CountingCluster
from controller.hotset.choice import describe_fewer_keys
from controller.hotset.coverage import (
    Coverage,
    TableShare,
    coverage,
    coverage_of_split,
    find_hottest,
    shares_by_table,
)
from experiment.progress import progress_bar
from experiment.run_config import config_of
from foundation.concurrency import run_interruptibly
from foundation.errors import DataError
from foundation.logs.access.access_settings import LogSettings
from foundation.logs.access.block import ReadOptions
from foundation.logs.access.column_roles import AccessColumns
from foundation.logs.access.dims import RowLogSettings
from foundation.logs.access.log_files import LogFiles, expand, paths_of
from foundation.logs.access.steps import Steps, read_steps
from foundation.logs.counts import (
    Counts,
    counts_description,
    has_columns_of_counts,
    has_columns_of_updates,
)
from foundation.logs.time_split import SplitUpdates, split_updates
from foundation.protocol.memory import NO_MEMORY, MemoryOfRows, memory_of_rows
from foundation.settings import JobId
from foundation.text import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# 1, 2, 5, 10, ... up to more than any number of keys.
_ROUND_VALUES = [digit * 10**power for power in range(19) for digit in (1, 2, 5)]


@dataclass(frozen=True, slots=True)
class ShareCurve:
    """The share of the scored updates that the top-k keys take, for every k."""

    name: str
    updates: int  # of the whole log
    keys: int  # with updates in the whole log
    coverage: Coverage
    chosen_top_k: int
    """Top-k that the caller has given, or else the recommended top-k."""
    jobs: int
    tables: tuple[TableShare, ...]
    notes: tuple[str, ...]
    """Sentences on the format and columns that were detected in the files."""
    is_buildable: bool
    """Whether `hotline hotset build` can read the files, too."""
    steps: int = 0
    """Mini-batches of the log; 0 for counts, which have no order in time."""
    training_steps: int = 0
    """Mini-batches that the keys are chosen from; if 0, keys are scored on what they are chosen from."""
    dims: tuple[int, ...] = (1,)
    """Distinct dims of the keys' rows, as RPCs carry them, ascending."""
    dim_column: str | None = None
    """Column of the log that has the dims of the keys' rows."""
    memory: MemoryOfRows = NO_MEMORY
    """Memory of the switch that the chosen keys' rows take."""

    @property
    def title(self) -> str:
        return f"{self.name}: {pluralize(self.updates, 'update')} of {pluralize(self.keys, 'key')}"

    @property
    def scoring(self) -> str:
        """Which updates the keys are chosen from and scored on."""
        if self.training_steps:
            return (
                f"keys are chosen from the first {self.training_steps:,} of {self.steps:,} mini-batches, and "
                f"scored on the {pluralize(self.coverage.updates, 'update')} of the rest"
            )
        reason = "counts of updates have no order" if not self.steps else "the log has one mini-batch"
        return (
            f"keys are scored on the updates that they are chosen from, because {reason}: "
            "later ones may differ"
        )

    @property
    def advice(self) -> str:
        keys = pluralize(self.chosen_top_k, "key takes", "keys take")
        share = f"{keys} {self.coverage.share(self.chosen_top_k):.1%} of the updates"
        if self.chosen_top_k > self.coverage.limit:
            per_job = "" if self.jobs == 1 else f" for each of {self.jobs} jobs"
            return f"{share}, but the tables hold {self.coverage.limit:,}{per_job}"
        dim = "" if self.dims == (1,) else f" --dim {self.dims[0]}"
        if self.dim_column is not None:
            dim = f" --columns dim={self.dim_column}"
        return (
            f"{share}: `hotline hotset build --top-k {self.chosen_top_k}{dim}`"
            if self.is_buildable
            else share
        )

    @property
    def memory_sentence(self) -> str:
        """The memory of the switch that the chosen keys take."""
        dims = " and ".join(map(str, self.dims))
        values = "value" if dims == "1" else "values"
        keys = pluralize(self.memory.rows, "key takes", "keys take")
        source = "--dim" if self.dim_column is None else f"column {self.dim_column}"
        return f"in the switch {keys}, with rows of {dims} {values} ({source}), {self.memory}"

    @property
    def marks(self) -> dict[int, str]:
        """Names of some values of k: the knee, the limit of the tables and the chosen k."""
        coverage, marks = self.coverage, dict[int, str]()
        named_values = (
            (coverage.knee, "knee"),
            (coverage.limit, "table limit"),
            (self.chosen_top_k, "chosen"),
        )
        for k, name in named_values:
            marks[k] = f"{marks[k]}, {name}" if k in marks else name
        return marks

    def rows(self) -> list[tuple[int, float, str]]:
        """Return k, share and mark, for round values of k and the values of `marks`."""
        coverage, marks = self.coverage, self.marks
        k_values = sorted({*takewhile(lambda k: k < coverage.keys, _ROUND_VALUES), coverage.keys, *marks})
        return [(k, coverage.share(k), marks.get(k, "")) for k in k_values]

    def plot(self) -> Figure:
        """Draw the share of the updates against the number of keys."""
        return draw(coverage_figure({"": self.coverage}, self.marks))

    def _repr_html_(self) -> str:
        rows: list[Row] = [(f"{k:,}", plain(f"{share:.1%}"), plain(mark)) for k, share, mark in self.rows()]
        curve = ReportTable(
            self.title,
            ("top-k", "share", ""),
            rows,
            (self.scoring, self.memory_sentence, self.advice, *self.notes),
        )
        return fragment(None, [curve, *([table_of(self.tables)] if self.tables else [])])


def table_of(shares: tuple[TableShare, ...]) -> ReportTable:
    rows: list[Row] = []
    for table in shares:
        cells = (f"{table.updates:,}", f"{table.keys:,}", f"{table.hot_keys:,}", f"{table.share:.1%}")
        rows.append((table.table, *map(plain, cells)))
    return ReportTable("By table", ("table", "updates", "keys", "chosen", "share"), rows)


class CurveSettings(LogSettings, RowLogSettings):
    job: JobId | None = None
    """Only the rows of this job."""
    top_k: int | None = Field(default=None, ge=1)
    """Number of keys to choose; None means up to the knee."""
    jobs: int = Field(default=1, ge=1, le=0xFFFF)
    """Offloaded jobs that share the tables; `make run-topo` has 3."""
    scheduler: CountingCluster = None


def curve(files: LogFiles, **settings: object) -> ShareCurve:
    """Return the coverage curve of logs, as `hotline hotset curve` does: `curve("log.csv", top_k=20_000)`.

    The settings are those of `CurveSettings`. Raises `ConfigError` and `DataError`.
    """
    chosen = config_of(CurveSettings, settings)
    job, top_k, jobs, scheduler = chosen.job, chosen.top_k, chosen.jobs, chosen.scheduler
    paths, options = paths_of(files), chosen.read_options
    name, log_files = ", ".join(map(str, paths)), expand(paths)
    # Files are read as an access log if an option of access logs is given; update logs may have dims, too.
    dim_column = options.columns.dim
    default_options = ReadOptions(AccessColumns(dim=dim_column), batch=chosen.batch)
    has_default_options = options == default_options
    has_counts, has_updates = (
        list(map(has_columns, log_files)) for has_columns in (has_columns_of_counts, has_columns_of_updates)
    )
    is_update_log = has_default_options and all(map(or_, has_counts, has_updates))
    if job is not None or (is_update_log and (any(has_counts) or scheduler is not None)):
        counts = run_interruptibly(lambda: Counts.of_logs(log_files, job, dim_column))
        [dim] = chosen.dims_of_tables(())
        with progress_bar("parts of the keys") as progress:
            counted = run_interruptibly(lambda: coverage(counts, jobs, progress, scheduler, dim))
        counts.check_repeats(counted.max_updates)
        chosen_top_k = top_k or counted.recommended_top_k
        notes = tuple(f"{file}: {counts_description(file)}" for file in log_files)
        notes += _notes_on_size(counted, top_k)
        return ShareCurve(
            name, counted.updates, counted.keys, counted, chosen_top_k, jobs, (), notes, is_buildable=True,
            dims=tuple(np.unique(counted.dims).tolist()), dim_column=dim_column,
            memory=memory_of_rows(counted.dims[:chosen_top_k]),
        )  # fmt: skip

    def read() -> tuple[Steps, SplitUpdates]:
        with TemporaryDirectory() as scratch_folder, progress_bar("reading") as progress:
            steps = read_steps(paths, options, Path(scratch_folder), progress)
            return steps, split_updates(steps)

    steps, updates = run_interruptibly(read)
    if not (updates.training.any() and updates.scored.any()):
        raise DataError(f"{name}: expected updates in both halves of the log, got {_halves(updates)}")
    dims = chosen.dims_of_keys(steps)
    scored = coverage_of_split(steps.keys, dims, updates, jobs)
    chosen_top_k = top_k or scored.recommended_top_k
    is_chosen = find_hottest(updates.training, chosen_top_k) & (updates.training > 0)
    log_updates = updates.training + updates.scored if updates.training_steps else updates.scored
    return ShareCurve(
        name, int(log_updates.sum()), int(np.count_nonzero(log_updates)), scored, chosen_top_k, jobs,
        tuple(shares_by_table(steps, updates, chosen_top_k)),
        (*steps.notes, *_notes_on_size(scored, top_k)), is_buildable=is_update_log,
        steps=len(steps), training_steps=updates.training_steps, dims=tuple(np.unique(dims).tolist()),
        dim_column=dim_column, memory=memory_of_rows(dims[is_chosen]),
    )  # fmt: skip


def _notes_on_size(coverage: Coverage, top_k: int | None) -> tuple[str, ...]:
    if top_k is None or top_k <= coverage.keys:
        return ()
    return (describe_fewer_keys(coverage.keys, top_k),)


def _halves(updates: SplitUpdates) -> str:
    return f"{int(updates.training.sum()):,} in the first and {int(updates.scored.sum()):,} in the second"
