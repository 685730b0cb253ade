"""Compile the samples that p4c refuses, and compare our errors with its expected messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import CompileError, Diagnostic

ARCHITECTURES = re.compile(r"include.*\b(psa|pna|tna|t2na|ebpf_model|ubpf_model|xdp_model|dpdk)\b")
_ERROR = re.compile(r"^\S+\.p4\((\d+)\): ?(\[--W\w+=?\S*\] )?(error: |syntax error)")
_PLACE = re.compile(r"^\S+\.p4\((\d+)\)")
_MAIN = ("V1Switch", "`main`")


class Expected(NamedTuple):
    """The lines of p4c's errors, and those of the places that the errors name."""

    errors: frozenset[int]
    places: frozenset[int]


def expected_lines(text: str) -> Expected:
    """Return the lines in p4c's expected output, which has a place at the beginning of a line."""
    errors, places, is_error = set(), set(), False
    for line in text.splitlines():
        if match := _ERROR.match(line):
            errors.add(int(match[1]))
            is_error = True
        elif "warning:" in line:
            is_error = False
        if is_error and (match := _PLACE.match(line)):
            places.add(int(match[1]))
    return Expected(frozenset(errors), frozenset(places))


def errors_suite(checkout: Path, only: re.Pattern[str], _frames: int) -> Iterator[tuple[str, str, str]]:
    """Yield the verdict of each sample of p4_16_errors, and of p4_16_bmv_errors, which has no messages."""
    testdata = checkout / "testdata"
    for folder in ("p4_16_errors", "p4_16_bmv_errors"):
        for sample in sorted((testdata / folder).glob("*.p4")):
            if not only.search(sample.stem):
                continue
            messages = testdata / f"{folder}_outputs" / f"{sample.name}-stderr"
            expected = expected_lines(messages.read_text()) if messages.exists() else None
            verdict, details = _verdict(sample, expected)
            yield f"{folder}/{sample.stem}", verdict if expected else f"{verdict} (back end)", details


def _verdict(sample: Path, expected: Expected | None) -> tuple[str, str]:
    try:
        compile_file(sample)
    except CompileError as error:
        found = error.diagnostics
    else:
        return "accepted", "" if expected is None else f"p4c's error is in {_listed(expected.errors)}"
    shown = f"{found[0].position}: {found[0].message}"
    if expected is None:
        return "refused", shown
    lines = {each.position.line for each in found}
    if lines & expected.errors:
        return "same line", ""
    if lines & expected.places:
        return "a line that the error names", ""
    if ARCHITECTURES.search(sample.read_text()):
        return "another architecture", shown
    if not expected.errors:
        return "p4c's error has no line", shown
    verdict = "only its package is refused" if all(map(_is_of_main, found)) else "another line"
    return verdict, f"{shown}; p4c's error is in {_listed(expected.errors)}"


def _is_of_main(each: Diagnostic) -> bool:
    return any(word in each.message for word in _MAIN)


def _listed(lines: frozenset[int]) -> str:
    return f"line {', '.join(map(str, sorted(lines)))}" if lines else "no line"
