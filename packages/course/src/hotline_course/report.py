"""Verdicts as text, JSON and JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from foundation.text import pluralize
from hotline_course.points import SubmissionResult

_INDENT = "      "
_MAX_REASON_LINES = 30


def as_text(result: SubmissionResult) -> Iterator[str]:
    """Yield the lines of one submission: points, reasons for lost ones, the first with its trace, and a TODO.

    A submission that could not be checked has none.
    """
    if result.problem:
        return
    yield f"{result.folder}: {result.earned} of {pluralize(result.points, 'point')} ({result.exercise})"
    shown_lines = _MAX_REASON_LINES
    for check in result.checks:
        yield f"  {check.earned}/{check.points} {check.name}"
        lines = check.reason.splitlines()
        yield from (f"{_INDENT}{line}" for line in lines[:shown_lines])
        if len(lines) > shown_lines:
            yield f"{_INDENT}… {pluralize(len(lines) - shown_lines, 'more line')} (--json shows all)"
        if lines:
            shown_lines = 1
    if result.status and result.todos:
        yield f"  next: {result.todos[0]}"


def as_row(result: SubmissionResult) -> tuple[str, str, str, str]:
    """Return the folder, the exercise, the points, and the first line of the first reason."""
    reason = result.problem or next((check.reason for check in result.checks if check.reason), "")
    points = "-" if result.problem else f"{result.earned}/{result.points}"
    return result.folder, result.exercise, points, reason.partition("\n")[0]


def as_json(results: Sequence[SubmissionResult]) -> list[dict[str, object]]:
    return [
        {
            "folder": each.folder,
            "exercise": each.exercise,
            "points": each.points,
            "earned": each.earned,
            "status": each.status,
            "problem": each.problem,
            "not_isolated": each.not_isolated,
            "todos": [*each.todos],
            "checks": [{**check._asdict(), "earned": check.earned} for check in each.checks],
        }
        for each in results
    ]


def as_junit(results: Sequence[SubmissionResult]) -> str:
    """Return JUnit's XML: a suite for each submission, and a case for each check."""
    root = ElementTree.Element("testsuites")
    for result in results:
        failures = sum(bool(check.reason) for check in result.checks)
        counts = {
            "tests": len(result.checks) or 1,
            "failures": failures,
            "errors": int(bool(result.problem)),
        }
        numbers = {name: str(number) for name, number in counts.items()}
        suite = ElementTree.SubElement(root, "testsuite", {"name": result.folder, **numbers})
        if result.problem:
            case = ElementTree.SubElement(suite, "testcase", classname=result.exercise, name="can be checked")
            ElementTree.SubElement(case, "error", message=result.problem)
        for check in result.checks:
            case = ElementTree.SubElement(
                suite, "testcase", classname=result.exercise, name=check.name, time=f"{check.seconds:.3f}"
            )
            if check.reason:
                lost = ElementTree.SubElement(case, "failure", message=check.reason.partition("\n")[0])
                lost.text = check.reason
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
