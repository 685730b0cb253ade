"""Verdicts as text, JSON and JUnit's XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from foundation.text import pluralize
from hotline_course.points import Verdict

_INDENT = "      "
_MAX_REASON_LINES = 30


def as_text(verdict: Verdict) -> Iterator[str]:
    """Yield the lines of one submission: points, and reasons for lost ones, the first with its trace."""
    if verdict.problem:
        yield f"{verdict.folder}: cannot be checked: {verdict.problem}"
        return
    yield f"{verdict.folder}: {verdict.earned} of {pluralize(verdict.points, 'point')} ({verdict.exercise})"
    shown_lines = _MAX_REASON_LINES
    for check in verdict.checks:
        yield f"  {check.earned}/{check.points} {check.name}"
        lines = check.reason.splitlines()
        yield from (f"{_INDENT}{line}" for line in lines[:shown_lines])
        if len(lines) > shown_lines:
            yield f"{_INDENT}… {pluralize(len(lines) - shown_lines, 'more line')} (--json shows all)"
        if lines:
            shown_lines = 1


def as_row(verdict: Verdict) -> tuple[str, str, str, str]:
    """Return the folder, the exercise, the points, and the first line of the first reason."""
    reason = verdict.problem or next((check.reason for check in verdict.checks if check.reason), "")
    points = "-" if verdict.problem else f"{verdict.earned}/{verdict.points}"
    return verdict.folder, verdict.exercise, points, reason.partition("\n")[0]


def as_json(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    return [
        {
            "folder": each.folder,
            "exercise": each.exercise,
            "points": each.points,
            "earned": each.earned,
            "status": each.status,
            "problem": each.problem,
            "not_isolated": each.not_isolated,
            "checks": [{**check._asdict(), "earned": check.earned} for check in each.checks],
        }
        for each in verdicts
    ]


def as_junit(verdicts: Sequence[Verdict]) -> str:
    """Return JUnit's XML: a suite for each submission, and a case for each check."""
    root = ElementTree.Element("testsuites")
    for verdict in verdicts:
        failures = sum(bool(check.reason) for check in verdict.checks)
        counts = {
            "tests": len(verdict.checks) or 1,
            "failures": failures,
            "errors": int(bool(verdict.problem)),
        }
        numbers = {name: str(number) for name, number in counts.items()}
        suite = ElementTree.SubElement(root, "testsuite", {"name": verdict.folder, **numbers})
        if verdict.problem:
            case = ElementTree.SubElement(
                suite, "testcase", classname=verdict.exercise, name="can be checked"
            )
            ElementTree.SubElement(case, "error", message=verdict.problem)
        for check in verdict.checks:
            case = ElementTree.SubElement(
                suite, "testcase", classname=verdict.exercise, name=check.name, time=f"{check.seconds:.3f}"
            )
            if check.reason:
                lost = ElementTree.SubElement(case, "failure", message=check.reason.partition("\n")[0])
                lost.text = check.reason
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
