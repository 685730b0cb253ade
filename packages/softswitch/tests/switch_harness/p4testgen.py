"""Run tests that p4testgen generates for p4c's v1model samples, in process and on BMv2.

Options are those of p4c's own run of p4testgen (`targets/bmv2/test/P4Tests.cmake`), but for `--strict`, so
that tests which were generated before p4testgen gave up are kept.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import click

from softswitch.conformance.pairs import pairs_in
from softswitch.conformance.runner import Outcome, run
from softswitch.conformance.targets import TARGETS

T = TypeVar("T")

GENERATION_S = 120.0
_OPTIONS = [
    "--target", "bmv2", "--arch", "v1model", "--test-backend", "STF", "--seed", "1000", "--max-tests", "10",
    "--track-coverage", "STATEMENTS", "--track-coverage", "TABLE_ENTRIES", "--track-coverage", "ACTIONS",
]  # fmt: skip


def generate_tests(testgen: Path, checkout: Path, folder: Path, only: re.Pattern[str]) -> None:
    """Write NAME.json, NAME.p4info.txtpb and NAME.CASE.stf for each sample that has tests."""
    compiler = shutil.which("p4c-bm2-ss")
    if compiler is None:
        sys.exit("suites: p4c-bm2-ss is not on PATH")
    samples = [sample for sample in _samples(checkout) if only.search(sample.stem)]
    for sample in _with_progress(samples, "generating tests"):
        name = sample.stem
        include = ["-I", str(checkout / "p4include")]
        if not _succeeds([compiler, *include, sample, "-o", folder / f"{name}.json",
                          "--p4runtime-files", folder / f"{name}.p4info.txtpb"]):  # fmt: skip
            (folder / f"{name}.json").unlink(missing_ok=True)
            continue
        _succeeds([testgen, *_OPTIONS, *include, "--out-dir", folder, sample])
        for vectors in folder.glob("*.stf"):
            case = re.fullmatch(re.escape(name) + r"_(\d+)", vectors.stem)
            if case:
                vectors.rename(folder / f"{name}.{case[1]}.stf")


def run_generated(folder: Path, programs: Path | None) -> dict[str, bool]:
    """Run generated tests on `simple_switch_grpc` in `programs`, or on the compiled packet function.

    Returns whether each test passes, by its name, without those that the target refuses.
    """
    if programs is not None:
        os.environ["HOTLINE_BMV2"] = str(programs)
    target = "compiled" if programs is None else "bmv2"
    pairs, _ = pairs_in([folder], [folder])
    verdicts = (run(TARGETS[target], *pair) for pair in _with_progress(pairs, f"running tests: {target}"))
    return {
        verdict.vectors.stem: verdict.outcome is Outcome.PASS
        for verdict in verdicts
        if verdict.outcome is not Outcome.REFUSED
    }


def _with_progress(parts: Sequence[T], label: str) -> Iterator[T]:
    with click.progressbar(parts, label=label, file=sys.stderr) as bar:
        yield from bar


def _samples(checkout: Path) -> Iterator[Path]:
    samples = checkout / "testdata" / "p4_16_samples"
    patterns = ("*.p4", "dash/*.p4", "fabric_*/fabric.p4", "omec/*.p4", "pins/*.p4")
    for sample in sorted(path for pattern in patterns for path in samples.glob(pattern)):
        text = sample.read_text()
        if re.search(r"include.*v1model\.p4", text) and re.search(r"main|common_v1_test", text):
            yield sample


def _succeeds(command: list[str | Path]) -> bool:
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, timeout=GENERATION_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
