"""`python -m hotline_tofino.report` on reports of the program with 4 lanes, of which parts are cut out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hotline_tofino.report import HEAD, main, use_of

REPORTS = Path(__file__).parent / "tofino_reports"


def test_a_row_has_the_compilers_totals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(REPORTS)]) == 0
    row = "| tofino_reports | 12 | 133 | 66 | 6 | 6 | 41 | 636 | 2,164 | 264 |"
    assert capsys.readouterr().out == f"{HEAD}\n{row}\n"


def test_containers_of_a_tofino_2_count(tmp_path: Path) -> None:
    shutil.copytree(REPORTS, tmp_path / "out")
    path = tmp_path / "out" / "pipe" / "logs" / "metrics.json"
    metrics = json.loads(path.read_text())
    kinds = {"normal": 1_020, "mocha": 796, "dark": 96}  # with 4 lanes
    metrics["phv"] = {kind: [{"bits_occupied": bits}] for kind, bits in kinds.items()}
    path.write_text(json.dumps(metrics))
    assert use_of(tmp_path / "out").phv_bits == 1_912


def test_unused_stages_at_the_end_do_not_count(tmp_path: Path) -> None:
    shutil.copytree(REPORTS, tmp_path / "out")
    log = tmp_path / "out" / "pipe" / "logs" / "mau.resources.log"
    lines = log.read_text().splitlines()
    last = next(at for at, line in enumerate(lines) if line.startswith("|      11 "))
    lines[last] = "|      11      |" + " 0 |" * (lines[last].count("|") - 2)
    log.write_text("\n".join(lines))
    assert use_of(tmp_path / "out").stages == 11


@pytest.mark.parametrize("missing", ["metrics.json", "mau.resources.log"])
def test_a_folder_without_reports_gets_one_line(
    missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(REPORTS, tmp_path / "out")
    (tmp_path / "out" / "pipe" / "logs" / missing).unlink()
    assert main([str(tmp_path / "out")]) == 1
    message = capsys.readouterr()
    assert message.out == "" and len(message.err.splitlines()) == 1 and missing in message.err


def test_an_unplaced_program_has_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """p4c then writes reports, too, with 0 cycles."""
    shutil.copytree(REPORTS, tmp_path / "out")
    path = tmp_path / "out" / "pipe" / "logs" / "metrics.json"
    metrics = json.loads(path.read_text())
    for each in metrics["mau"]["latency"]:
        each["cycles"] = 0
    path.write_text(json.dumps(metrics))
    assert main([str(tmp_path / "out")]) == 1
    assert "0 cycles" in capsys.readouterr().err


def test_a_program_that_does_not_fit_has_no_row(tmp_path: Path) -> None:
    shutil.copytree(REPORTS, tmp_path / "out")
    (tmp_path / "out" / "pipe" / "logs" / "mau.resources.log").write_text("|  Stage Number | SRAM |\n")
    assert main([str(tmp_path / "out")]) == 1
