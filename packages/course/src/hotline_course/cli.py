"""`hotline check`: points for submissions of a course's exercises."""

from __future__ import annotations

from pathlib import Path

import click
from rich.markup import escape

from foundation.errors import HotlineError
from foundation.logs.parts import write_text
from hotline.cli.common import FILE, FOLDER, json_option, print_json, print_plain_table
from hotline.cli.examples import add_example
from hotline.cli.fields import fills
from hotline_course.settings import CheckSettings


@click.command()
@click.argument("folders", nargs=-1, required=True, type=FOLDER)
@fills(CheckSettings, "settings")
@click.option("--course", type=FOLDER, help="The lecturer's exercises; by default examples/course.")
@click.option("--junit", type=FILE, help="Write JUnit's XML into this file.")
@json_option
def check(
    folders: tuple[Path, ...],
    settings: CheckSettings,
    course: Path | None,
    junit: Path | None,
    as_json: bool,
) -> None:
    """Check submissions of a course's exercises, and print their points.

    A FOLDER has one submission, or submissions in folders. The exit status is 0 for all points, 1 if points
    are lost, and 2 if a submission could not be checked.
    """
    from hotline_course import report
    from hotline_course.checker import check_batch
    from hotline_course.errors import message_of
    from hotline_course.exercise import COURSE, submissions_in

    try:
        found = [each for folder in folders for each in submissions_in(folder)]
        results = check_batch(found, course or COURSE, settings)
    except (HotlineError, OSError) as error:
        raise _cannot_check(message_of(error)) from None
    if as_json:
        print_json(report.as_json(results))
    elif len(results) == 1:
        click.echo("\n".join(report.as_text(results[0])), nl=not results[0].problem)
    else:
        rows = [[*map(escape, report.as_row(each))] for each in results]
        print_plain_table(("submission", "exercise", "points", "first reason"), rows)
    for reason in {each.not_isolated for each in results} - {""}:
        click.echo(f"warning: submissions had limits, but were not isolated: {reason}", err=True)
    if junit is not None:
        try:
            write_text(junit, report.as_junit(results))
        except (HotlineError, OSError) as error:  # the results are printed by then
            raise _cannot_check(message_of(error)) from None
    if problems := [each.problem for each in results if each.problem]:
        raise _cannot_check(*problems)
    if any(each.status for each in results):
        raise click.exceptions.Exit(1)


def _cannot_check(*problems: str) -> click.exceptions.Exit:
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    return click.exceptions.Exit(2)


add_example(check, "examples/course/01-forward")
