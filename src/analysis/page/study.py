from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from analysis.figures.figure_files import write_figures
from analysis.figures.model import Figure
from analysis.page.build import Page, build
from analysis.page.plots import plot
from analysis.wording import ReportTable, plain
from foundation.errors import DataError, reason_of
from foundation.logs.parts import write_text


def text_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()
) -> ReportTable:
    """Make a table of plain texts; the first cell of a row is its title."""
    return ReportTable(title, columns, [(name, *map(plain, cells)) for name, *cells in rows], notes)


def write_report(
    page: Page, figures: Sequence[Figure], folder: Path, numbers: BaseModel | None = None
) -> Path:
    """Write report.html with the figures, their files and, if given, numbers.json; return the report's path.

    Raises `DataError`.
    """
    page = replace(page, plots=[plot(figure) for figure in figures])
    figure_folder, report = folder / "figures", folder / "report.html"
    try:
        figure_folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="partial-", dir=folder) as partial:
            figure_files = write_figures(figures, Path(partial))
            write_text(Path(partial, report.name), build(page))
            for path in figure_files:
                path.replace(figure_folder / path.name)
            Path(partial, report.name).replace(report)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {reason_of(error)}") from error
    if numbers is not None:
        write_text(folder / "numbers.json", numbers.model_dump_json(indent=2) + "\n")
    return report
