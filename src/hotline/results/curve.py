from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from analysis.page.build import fragment
from analysis.wording import Row, Table, plain
from controller.hotset.coverage import Coverage, coverage
from controller.hotset.curve import draw_figure
from controller.hotset.tables import TableShare, shares_by_table
from experiment.bars import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.logs.access.block import SAMPLES_PER_STEP, ReadOptions, read_options
from foundation.logs.access.columns import Columns
from foundation.logs.access.source import LogFiles, expand, paths_of
from foundation.logs.access.steps import Steps, read_steps
from foundation.logs.counts import Counts, has_columns_of_counts
from foundation.text import pluralize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# 1, 2, 5, 10, ... up to more than any number of keys.
_ROUND_VALUES = [digit * 10**power for power in range(19) for digit in (1, 2, 5)]


@dataclass(frozen=True, slots=True)
class Curve:
    """The share of all updates that the top-k keys take, for every k."""

    name: str
    coverage: Coverage
    chosen_top_k: int
    """Top-k that the caller has given, or else the recommended top-k."""
    jobs: int
    tables: tuple[TableShare, ...]
    notes: tuple[str, ...]
    """Sentences on the format and columns that were detected in the files."""
    is_access_log: bool
    """Whether the files were read as an access log, which `hotline hotset build` cannot read."""

    @property
    def title(self) -> str:
        coverage = self.coverage
        return f"{self.name}: {pluralize(coverage.updates, 'update')} of {pluralize(coverage.keys, 'key')}"

    @property
    def advice(self) -> str:
        share = f"{self.chosen_top_k:,} keys take {self.coverage.share(self.chosen_top_k):.1%} of the updates"
        if self.chosen_top_k > self.coverage.limit:
            per_job = "" if self.jobs == 1 else f" for each of {self.jobs} jobs"
            return f"{share}, but the tables hold {self.coverage.limit:,}{per_job}"
        return share if self.is_access_log else f"{share}: `hotline hotset build --top-k {self.chosen_top_k}`"

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
        return draw_figure(self.coverage, self.marks)

    def _repr_html_(self) -> str:
        rows: list[Row] = [(f"{k:,}", plain(f"{share:.1%}"), plain(mark)) for k, share, mark in self.rows()]
        curve = Table(self.title, ("top-k", "share", ""), rows, (self.advice, *self.notes))
        return fragment(None, [curve, *([table_of(self.tables)] if self.tables else [])])


def table_of(shares: tuple[TableShare, ...]) -> Table:
    rows: list[Row] = []
    for table in shares:
        cells = (f"{table.updates:,}", f"{table.keys:,}", f"{table.hot_keys:,}", f"{table.share:.1%}")
        rows.append((table.table, *map(plain, cells)))
    return Table("By table", ("table", "updates", "keys", "chosen", "share"), rows)


def curve(
    files: LogFiles, *, top_k: int | None = None, jobs: int = 1, job: int | None = None,
    columns: str | None = None, batch: int = SAMPLES_PER_STEP, skip_bad: bool = False,
    scheduler: str | None = None,
) -> Curve:  # fmt: skip
    """Return the coverage curve of logs, as `hotline hotset curve` does; raises `DataError`."""
    paths, options = paths_of(files), read_options(columns, batch, skip_bad)
    with TemporaryDirectory() as scratch_folder:
        counts, steps = run_interruptibly(lambda: _read_counts(paths, job, options, Path(scratch_folder)))
        with progress_bar("parts of the keys") as progress:
            curve_coverage = run_interruptibly(lambda: coverage(counts, jobs, progress, scheduler))
        chosen_top_k = top_k or curve_coverage.recommended_top_k
        tables = () if steps is None else tuple(shares_by_table(steps, chosen_top_k))
    notes = () if steps is None else steps.notes
    return Curve(
        ", ".join(map(str, paths)), curve_coverage, chosen_top_k, jobs, tables, notes, steps is not None
    )


def _read_counts(
    files: list[Path], job: int | None, options: ReadOptions, scratch_folder: Path
) -> tuple[Counts, Steps | None]:
    paths = expand(files)
    # Files are read as an access log if columns are named, or bad rows may be skipped.
    has_default_options = options.columns == Columns() and not options.skip_bad
    if job is not None or (has_default_options and all(map(has_columns_of_counts, paths))):
        return Counts.of_logs(paths, job), None
    with progress_bar("reading") as progress:
        steps = read_steps(files, options, scratch_folder, progress)
    return Counts.of_steps(steps), steps
