"""Tests that p4testgen generates: which files they get, and their verdicts. Its programs are scripts here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from switch_harness import PROGRAMS
from switch_harness.p4testgen import generate_tests, run_generated

FRAME = "02 00 00 00 00 02 02 00 00 00 00 01 08 00"

COMPILER = f"""#!/bin/sh
case $3 in *broken*) exit 1 ;; esac
cp {PROGRAMS}/l3.json "$5"
cp {PROGRAMS}/l3.p4info.txtpb "$7"
"""
# Frames without an IPv4 header are dropped, so the second expectation is not met.
TESTGEN = f"""#!/bin/sh
while [ $# -gt 1 ]; do
    [ "$1" = --out-dir ] && folder=$2
    shift
done
name=$(basename "$1" .p4)
echo 'packet 1 {FRAME}' >"$folder/${{name}}_1.stf"
printf 'packet 1 {FRAME}\\nexpect 2 {FRAME}$\\n' >"$folder/${{name}}_2.stf"
echo 'counter_read "no such counter" 0' >"$folder/${{name}}_3.stf"
exit 1
"""


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    samples = tmp_path / "p4c" / "testdata" / "p4_16_samples"
    (samples / "pins").mkdir(parents=True)
    for name in ("routes", "broken", "pins/pins_tor"):
        (samples / f"{name}.p4").write_text("#include <v1model.p4>\nV1Switch(...) main;\n")
    (samples / "other.p4").write_text("#include <psa.p4>\nPSA_Switch(...) main;\n")
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "p4c-bm2-ss", COMPILER)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    return tmp_path / "p4c"


def test_tests_of_samples_are_kept_though_the_generator_gives_up(checkout: Path, tmp_path: Path) -> None:
    testgen, folder = script(tmp_path / "p4testgen", TESTGEN), tmp_path / "generated"
    folder.mkdir()
    generate_tests(testgen, checkout, folder, re.compile(""))
    assert {path.name for path in folder.glob("*.stf")} == {
        f"{name}.{case}.stf" for name in ("routes", "pins_tor") for case in (1, 2, 3)
    }
    assert run_generated(folder, None) == {
        f"{name}.{case}": case == 1 for name in ("routes", "pins_tor") for case in (1, 2, 3)
    }


def test_only_the_samples_that_are_asked_for_are_generated(checkout: Path, tmp_path: Path) -> None:
    testgen, folder = script(tmp_path / "p4testgen", TESTGEN), tmp_path / "generated"
    folder.mkdir()
    generate_tests(testgen, checkout, folder, re.compile("tor"))
    assert {path.stem.partition(".")[0] for path in folder.iterdir()} == {"pins_tor"}
