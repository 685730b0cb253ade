"""The samples of a checkout of p4c, and what p4c and our compiler make of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from softswitch.errors import ProgramError
from softswitch.p4.bmv2_json import bmv2_json_text
from softswitch.p4.compiler import compile_file
from softswitch.p4.p4info import p4info, p4info_text

REFUSED_BY_P4C = "p4c refuses it"
_COMPILE_S = 120
_FOLDERS = ("*.p4", "dash/*.p4", "fabric_*/fabric.p4", "omec/*.p4", "pins/*.p4")


def v1model_samples(checkout: Path, only: re.Pattern[str]) -> Iterator[Path]:
    """Yield p4c's samples that include v1model.p4 and have an instance `main`."""
    samples = checkout / "testdata" / "p4_16_samples"
    for sample in sorted(path for pattern in _FOLDERS for path in samples.glob(pattern)):
        text = sample.read_text()
        is_program = re.search(r"include.*v1model\.p4", text) and re.search(r"main|common_v1_test", text)
        if is_program and only.search(name_of(sample)):
            yield sample


def name_of(sample: Path) -> str:
    """Return a name that no other sample has."""
    folder = sample.parent.name
    return sample.stem if folder == "p4_16_samples" else f"{folder}-{sample.stem}"


def compile_by_p4c(sample: Path, folder: Path) -> Path | None:
    """Return the path of the outputs without suffix; None if p4c refuses the sample."""
    into = folder / f"{name_of(sample)}-p4c"
    if (program := shutil.which("p4c-bm2-ss")) is None:
        sys.exit("p4c-bm2-ss is not on PATH")
    command = [program, "--p4runtime-files", f"{into}.p4info.txtpb", "-o", f"{into}.json", sample.name]
    try:
        done = subprocess.run(
            command, cwd=sample.parent, capture_output=True, timeout=_COMPILE_S, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    return into if done.returncode == 0 and into.with_suffix(".json").exists() else None


def compile_by_us(sample: Path, folder: Path) -> Path:
    """Return the path of the outputs without suffix; raises ProgramError for a sample that is refused."""
    into = folder / f"{name_of(sample)}-softswitch"
    lowered = compile_file(sample)
    into.with_suffix(".json").write_bytes(bmv2_json_text(lowered))
    into.with_suffix(".p4info.txtpb").write_text(p4info_text(p4info(lowered)))
    return into


def first_line(error: ProgramError) -> str:
    return str(error).partition("\n")[0]
