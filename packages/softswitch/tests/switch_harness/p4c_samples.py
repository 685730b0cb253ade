"""P4_16 programs of a checkout, such as p4c's samples, and what p4c and our compiler make of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from softswitch.errors import ProgramError
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.p4.lower_program import Lowered
from softswitch.p4.p4info import p4info, p4info_text

SAMPLES = Path("testdata") / "p4_16_samples"
INFO_SUFFIX = ".p4info.txtpb"
_COMPILE_S = 120
_FOLDERS = ("*.p4", "dash/*.p4", "fabric_*/fabric.p4", "omec/*.p4", "pins/*.p4")


class Sample(NamedTuple):
    """A program: its name, which no other program of the checkout has, and its file."""

    name: str
    file: Path


class CompiledSample(NamedTuple):
    """A sample with the outputs of both compilers: paths without suffix, or the text of a refusal."""

    name: str
    reference: Path | str
    ours: Path | str


def v1model_samples(checkout: Path, only: re.Pattern[str]) -> Iterator[Sample]:
    """Yield p4c's samples for v1model; in a checkout of another repository, all programs with a V1Switch."""
    samples = checkout / SAMPLES
    is_p4c = samples.exists()
    patterns, root = (_FOLDERS, samples) if is_p4c else (("**/*.p4",), checkout)
    for file in sorted(path for pattern in patterns for path in root.glob(pattern)):
        text = file.read_text(errors="replace")
        if is_p4c:
            is_program = re.search(r"include.*v1model\.p4", text) and re.search(r"main|common_v1_test", text)
        else:
            is_program = re.search(r"^\s*V1Switch\b", text, re.MULTILINE)
        name = "-".join(file.relative_to(root).with_suffix("").parts)
        if is_program and only.search(name):
            yield Sample(name, file)


def compiled_samples(checkout: Path, only: re.Pattern[str]) -> Iterator[CompiledSample]:
    """Yield each sample as both compilers make it; the files are deleted when the next one is asked for."""
    for sample in v1model_samples(checkout, only):
        with TemporaryDirectory() as folder:
            into = Path(folder)
            reference, ours = compile_by_p4c(sample, into / "p4c"), compile_by_us(sample, into / "softswitch")
            yield CompiledSample(sample.name, reference, ours)


def compile_by_p4c(sample: Sample, into: Path) -> Path | str:
    if (program := shutil.which("p4c-bm2-ss")) is None:
        sys.exit("p4c-bm2-ss is not on PATH")
    command = [program, "--p4runtime-files", f"{into}{INFO_SUFFIX}", "-o", f"{into}.json", sample.file.name]
    try:
        done = subprocess.run(
            command, cwd=sample.file.parent, capture_output=True, text=True, timeout=_COMPILE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"took more than {_COMPILE_S} s"
    if done.returncode == 0 and into.with_suffix(".json").exists():
        return into
    lines = [line for line in done.stderr.splitlines() if "error" in line]
    return lines[0] if lines else f"exit status {done.returncode}"


def compile_by_us(sample: Sample, into: Path) -> Path | str:
    try:
        write_outputs(compile_file(sample.file), into)
    except ProgramError as error:
        return str(error).partition("\n")[0]
    return into


def write_outputs(lowered: Lowered, into: Path) -> None:
    """Write JSON and P4Info to a path without suffix."""
    into.with_suffix(".json").write_bytes(bmv2_json_text(lowered))
    into.with_suffix(INFO_SUFFIX).write_text(p4info_text(p4info(lowered)))
