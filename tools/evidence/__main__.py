"""`make evidence`: make the results that are missing or named, and put them into the pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table as TerminalTable

from foundation.checkout import ROOT
from foundation.logs.parts import write_text
from foundation.text import pluralize
from tools import host_costs
from tools.evidence.pages import pages, with_tables
from tools.evidence.result import EvidenceError, Result, read_result, read_results, result_path, write_result
from tools.evidence.run import followed_today, run_stage
from tools.evidence.stage import Stage, digest_of, files_of, staleness
from tools.evidence.stages import STAGES

_OUTPUTS = ROOT / "evidence"


@click.command()
@click.argument("names", nargs=-1, metavar="[STAGES]")
@click.option(
    "--list", "only_list", is_flag=True, help="Print stages, times and what is stale, and run nothing."
)
@click.option(
    "--pages", "only_pages", is_flag=True, help="Put the results of results/ into the pages, and run nothing."
)
@click.option(
    "--files",
    "files_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the configuration files that commands of results name into a folder, and run nothing.",
)
@click.option(
    "--followed",
    multiple=True,
    metavar="RESULT",
    help="Note that a result's recipe was followed with today's code and made its table, and run nothing.",
)
@click.option("--all", "also_stale", is_flag=True, help="Run also stages whose results are stale.")
def main(
    names: Sequence[str],
    only_list: bool,
    only_pages: bool,
    files_folder: Path | None,
    followed: Sequence[str],
    also_stale: bool,
) -> None:
    """Make the results that are missing, or those of STAGES, and put their tables into the pages.

    A stage that was interrupted goes on with its next step. Results that are stale (another version of the
    wire, or code that has changed since) are carried over and named.
    """
    stages = _chosen(names)
    if files_folder is not None:
        _write_files(stages, files_folder)
        return
    results = read_results()
    if followed:
        _note_followed(followed, results)
        return
    if only_pages:
        _renew_pages(results)
        return
    digests = _digests(results)
    console = Console(stderr=True)
    console.print(_overview(stages, results, digests))
    pending = [stage for stage in stages if names or _is_due(stage, results, digests, also_stale)]
    for line in _carried_over(results, digests):
        console.print(line, highlight=False)
    if only_list:
        return
    console.print(f"{pluralize(len(pending), 'stage')} to run, about {_duration(pending)}.")
    failures = []
    for stage in pending:
        try:
            for name, result in run_stage(stage, _OUTPUTS / stage.name, console.print):
                write_result(name, result)
            if host_costs.RESULT in stage.results:
                host_costs.renew(read_result(result_path(host_costs.RESULT)))
        except EvidenceError as error:
            failures.append(f"{stage.name}: {error}")
            console.print(failures[-1], highlight=False)
        _renew_pages(read_results())
    if failures:
        raise EvidenceError("\n".join(failures))


def _write_files(stages: Sequence[Stage], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for step in (step for stage in stages for step in stage.steps):
        for name, text in step.shown_files(folder):
            write_text(folder / name, text)
            click.echo(f"{folder / name}  ({step.shown})")


def _chosen(names: Sequence[str]) -> list[Stage]:
    by_name = {stage.name: stage for stage in STAGES}
    for name in names:
        if name not in by_name:
            raise click.UsageError(f"{name}: expected a stage, one of {', '.join(by_name)}")
    return [by_name[name] for name in names] or list(STAGES)


def _note_followed(names: Sequence[str], results: dict[str, Result]) -> None:
    for name in names:
        if name not in results or results[name].origin.recipe is None:
            recipes = ", ".join(each for each, result in results.items() if result.origin.recipe is not None)
            raise click.UsageError(f"{name}: expected a result with a recipe, one of {recipes}")
    for name in names:
        write_result(name, followed_today(results[name]))


def _digests(results: dict[str, Result]) -> dict[str, str]:
    """Return the digest of today's code of each result."""
    found = {name: digest for stage in STAGES for digest in [stage.digest()] for name in stage.results}
    by_recipe = (name for name, result in results.items() if result.origin.recipe is not None)
    return found | {name: digest_of(files_of(results[name].origin.sources)) for name in by_recipe}


def _is_due(stage: Stage, results: dict[str, Result], digests: dict[str, str], also_stale: bool) -> bool:
    if any(name not in results for name in stage.results):
        return True
    return also_stale and any(_reasons(stage.results, results, digests))


def _reasons(names: Iterable[str], results: dict[str, Result], digests: dict[str, str]) -> Iterator[str]:
    for name in names:
        yield from staleness(results[name].origin, digests[name])


def _overview(stages: Sequence[Stage], results: dict[str, Result], digests: dict[str, str]) -> TerminalTable:
    table = TerminalTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("stage", no_wrap=True)
    table.add_column("minutes", justify="right")
    for name in ("results", "needs"):
        table.add_column(name)
    for stage in stages:
        minutes = f"{max(1.0, stage.minutes):,.0f}"
        table.add_row(stage.name, minutes, _state(stage, results, digests), stage.needs)
    return table


def _state(stage: Stage, results: dict[str, Result], digests: dict[str, str]) -> str:
    if missing := [name for name in stage.results if name not in results]:
        return f"missing: {', '.join(missing)}"
    reasons = _reasons(stage.results, results, digests)
    return "; ".join(dict.fromkeys(reasons)) or "as today's code makes them"


def _carried_over(results: dict[str, Result], digests: dict[str, str]) -> Iterator[str]:
    """Yield what is kept although it may no longer hold, and what no stage can make, by commit."""
    stale, by_recipe = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for name, result in results.items():
        commit = f"{result.origin.commit} ({result.origin.date})"
        if any(_reasons([name], results, digests)):
            stale[commit].append(name)
        elif result.origin.recipe is not None:
            by_recipe[commit].append(name)
    for commit, names in stale.items():
        yield f"carried over from {commit}: {', '.join(names)}"
    for commit, names in by_recipe.items():
        yield f"made by a recipe at {commit}, as today's code makes them: {', '.join(names)}"


def _duration(stages: Sequence[Stage]) -> str:
    minutes = sum(stage.minutes for stage in stages)
    return f"{minutes:,.0f} min" if minutes < 90 else f"{minutes / 60:,.1f} h"


def _renew_pages(results: dict[str, Result]) -> None:
    pending = {name for stage in STAGES for name in stage.results}
    for page in pages():
        text = page.read_text()
        renewed = with_tables(text, results, str(page.relative_to(ROOT)), pending)
        if renewed != text:
            write_text(page, renewed)
            click.echo(str(page.relative_to(Path.cwd()) if page.is_relative_to(Path.cwd()) else page))


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except EvidenceError as error:
        raise SystemExit(str(error)) from None
