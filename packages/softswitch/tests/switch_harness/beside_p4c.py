"""Compare our compiler with p4c on P4 programs, and print a line for each program and the counts.

From the folder tests, with a checkout of p4c, p4-guide or another repository with programs for v1model:

    python -m switch_harness.beside_p4c info CHECKOUT      P4Info as text
    python -m switch_harness.beside_p4c frames CHECKOUT    frames, on softswitch, interpreted
    python -m switch_harness.beside_p4c compiled CHECKOUT  frames, on softswitch, compiled as well
    python -m switch_harness.beside_p4c bmv2 CHECKOUT      frames, on BMv2 as well (`HOTLINE_BMV2`)
    python -m switch_harness.beside_p4c sizes CHECKOUT     tables, conditions and primitives of the JSON
    python -m switch_harness.beside_p4c fills CHECKOUT     frames, with two fills of storage
    python -m switch_harness.beside_p4c errors CHECKOUT    lines of errors in programs that p4c refuses
    python -m switch_harness.beside_p4c expected CHECKOUT  P4Info that p4c's repository expects

All but the last three need p4c-bm2-ss on the PATH, and the last two a checkout of p4c. The counts are those
of all programs for v1model, with those that a compiler refuses. `frames`, `compiled` and `bmv2` write random
entries and send random frames, with p4c's JSON and with ours, to switches of one kind; `bmv2` also sends them
to softswitch with our JSON, and sets fields of headers to 0 in the parser, as `beside_bmv2` says. `fills`
sends them to softswitch, where fields of invalid headers and variables begin with 0, and with something else:
a program that does other things then reads undefined values. `errors` compares the lines of our errors with
those of p4c's messages.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from softswitch.errors import ProgramError
from softswitch.p4.compiler import compile_file
from softswitch.p4.p4info import p4info, p4info_text
from switch_harness.p4c_errors import ARCHITECTURES, errors_suite
from switch_harness.p4c_frames import compare_on_bmv2, compare_on_softswitch
from switch_harness.p4c_samples import INFO_SUFFIX, SAMPLES, compiled_samples, v1model_samples, write_outputs
from switch_harness.zeroed import filled, zeroed

Verdicts = Iterator[tuple[str, str, str]]
"""A program's name, a verdict, and details."""
Comparison = Callable[[Path, Path, int], tuple[str, str]]
"""Compares both outputs, given by their paths without suffix, by a number of frames."""
_MAX_SIZE_RATIO = 1.05


def compare_info(reference: Path, ours: Path, _frames: int) -> tuple[str, str]:
    one, other = (each.with_suffix(INFO_SUFFIX).read_text() for each in (reference, ours))
    return "equal" if one == other else "differs", ""


def compare_sizes(reference: Path, ours: Path, _frames: int) -> tuple[str, str]:
    one, other = (_sizes(json.loads(each.with_suffix(".json").read_text())) for each in (reference, ours))
    shown = ", ".join(f"{name} {other[name]} (p4c {count})" for name, count in one.items())
    is_larger = sum(other.values()) > sum(one.values()) * _MAX_SIZE_RATIO
    return "larger" if is_larger else "as p4c's or smaller", shown


def _sizes(program: Any) -> dict[str, int]:  # parsed JSON
    pipelines = program["pipelines"]
    return {
        "tables": sum(len(each["tables"]) for each in pipelines),
        "conditions": sum(len(each["conditionals"]) for each in pipelines),
        "primitives": sum(len(each["primitives"]) for each in program["actions"]),
    }


def comparison_suite(compare: Comparison, checkout: Path, only: re.Pattern[str], frames: int) -> Verdicts:
    """Yield the verdict of each program for v1model, also of those that a compiler refuses."""
    for sample in compiled_samples(checkout, only):
        match sample.reference, sample.ours:
            case Path() as reference, Path() as ours:
                yield sample.name, *compare(reference, ours, frames)
            case Path(), str() as ours_error:
                yield sample.name, "softswitch refuses it", ours_error
            case str() as error, Path():
                yield sample.name, "p4c refuses it", error
            case error, ours_error:
                yield sample.name, "both refuse it", f"softswitch: {ours_error}; p4c: {error}"


def expected_suite(checkout: Path, only: re.Pattern[str], _frames: int) -> Verdicts:
    """Yield how our P4Info of each sample differs from the one that is stored beside p4c's samples."""
    folder = checkout / f"{SAMPLES}_outputs"
    for expected in sorted(folder.rglob(f"*{INFO_SUFFIX}")):
        name = expected.relative_to(folder).as_posix().removesuffix(INFO_SUFFIX)
        source = checkout / SAMPLES / name
        if not only.search(name):
            continue
        try:
            found = p4info_text(p4info(compile_file(source)))
        except ProgramError as error:
            is_other = ARCHITECTURES.search(source.read_text())
            yield name, "another architecture" if is_other else "refused", str(error).partition("\n")[0]
            continue
        yield name, "equal" if found == expected.read_text() else "differs", ""


def fills_suite(checkout: Path, only: re.Pattern[str], frames: int) -> Verdicts:
    """Yield whether each program for v1model does the same with two fills of uninitialised storage."""
    for sample in v1model_samples(checkout, only):
        with TemporaryDirectory() as folder:
            ours = Path(folder) / "softswitch"
            try:
                lowered = compile_file(sample.file)
            except ProgramError as error:
                yield sample.name, "softswitch refuses it", str(error).partition("\n")[0]
                continue
            write_outputs(lowered, ours)
            metadata = lowered.blocks["p"].declaration.parameters[2].name
            other = filled(ours, Path(folder), metadata)
            yield sample.name, *compare_on_softswitch(zeroed(ours, Path(folder)), other, frames)


SUITES: dict[str, Callable[[Path, re.Pattern[str], int], Verdicts]] = {
    "info": partial(comparison_suite, compare_info),
    "frames": partial(comparison_suite, compare_on_softswitch),
    "compiled": partial(comparison_suite, partial(compare_on_softswitch, has_compiled=True)),
    "bmv2": partial(comparison_suite, compare_on_bmv2),
    "sizes": partial(comparison_suite, compare_sizes),
    "fills": fills_suite,
    "errors": errors_suite,
    "expected": expected_suite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout", type=Path, metavar="CHECKOUT", help="a checkout with P4 programs")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--frames", type=int, default=60, help="frames for each program (60)")
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    for name, verdict, details in SUITES[options.suite](
        options.checkout.absolute(), options.only, options.frames
    ):
        totals[verdict] += 1
        print(f"{name}: {verdict}{': ' if details else ''}{details}", flush=True)
    print(
        f"{totals.total()} programs: " + ", ".join(f"{count} {kind}" for kind, count in totals.most_common())
    )


if __name__ == "__main__":
    main()
