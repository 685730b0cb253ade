"""`run.json`: what it has when nothing is told, what is refused, and how it lies on the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.record import AnalysisError, RunRecord, ServerUse, read_record
from hotline.cli.commands import hotline
from tests.unit.analysis.synthetic import SyntheticRun

LEAST = {
    "target": "bmv2",
    "config": {"workers": 2},
    "machine": {"kernel": "6.1"},
    "versions": {"python": "3.11"},
    "placement": {"p1": 0},
    "seeds": {"seed": 1},
    "jobs": {"offload": 4},
}


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(LEAST))
    record = read_record(tmp_path)
    assert json.loads(record.model_dump_json()) == {
        **LEAST,
        "datapath": None,
        "workload": {},
        "agents": {},
        "phases_s": {},
        "capacity": {},
        "offered_rate": {},
        "blocks": [],
        "repeated_blocks": [],
        "ended_by": None,
        "alpha": 0.05,
        "capacity_checks": [],
        "accounting": None,
        "switch": None,
        "simulation": None,
        "virtual": None,
        "memory_mb": {},
        "error": None,
    }
    # Nothing of it is shared with the next.
    assert record.blocks is not read_record(tmp_path).blocks


def test_servers_that_have_done_nothing() -> None:
    assert ServerUse().model_dump() == {
        "packets": 0,
        "bytes": 0,
        "proc_wall_ns": 0,
        "proc_cpu_ns": 0,
        "cpu_s": 0.0,
        "commits": 0,
        "commit_ns": 0,
        "delayed": 0,
        "delay_ns": 0,
    }


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"target": 3}, "target: Input should be a valid string"),
        ({"blocks": [{"round": 1}]}, "blocks.0.load: Field required"),
        ({"more": 1}, "more: Extra inputs are not permitted"),
        ({"accounting": {"sent": "x"}}, "accounting.sent: Input should be a valid integer"),
    ],
)
def test_a_record_that_is_none_of_ours(tmp_path: Path, change: dict[str, object], why: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps({**LEAST, **change}))
    with pytest.raises(AnalysisError) as refusal:
        read_record(tmp_path)
    assert str(refusal.value).startswith(f"{file}: {why}")


def test_a_folder_without_a_record(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError) as refusal:
        read_record(tmp_path)
    assert str(refusal.value) == f"{tmp_path}: not a run folder, there is no run.json"


def test_a_record_is_readable_text(tmp_path: Path) -> None:
    RunRecord.model_validate(LEAST).write(tmp_path)
    text = (tmp_path / "run.json").read_text()
    assert text.startswith('{\n  "target": "bmv2",\n  "datapath": null,\n  "config": {\n    "workers": 2\n')
    assert text.endswith('  "error": null\n}\n')


def test_the_command_writes_where_it_reads(synthetic_run: SyntheticRun) -> None:
    folder = synthetic_run.folder
    result = CliRunner().invoke(hotline, ["report", str(folder)])
    assert result.exit_code == 0
    assert result.output.endswith(f"report: {folder}/report.html\n")
    assert "Load 0.5: 100.0 steps/s, 6 rounds" in result.output
    text = (folder / "summary.json").read_text()
    assert text.startswith('{\n  "target": "softswitch",\n') and text.endswith("}\n")


def test_the_command_takes_the_latest_run(
    synthetic_run: SyntheticRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = synthetic_run.folder.parent / "runs"
    runs.mkdir()
    (runs / "latest").symlink_to(synthetic_run.folder)
    monkeypatch.chdir(runs.parent)
    result = CliRunner().invoke(hotline, ["report"])
    assert result.exit_code == 0 and result.output.endswith("report: runs/latest/report.html\n")


def test_the_command_names_what_is_no_run(tmp_path: Path) -> None:
    empty = CliRunner().invoke(hotline, ["report", str(tmp_path)])
    assert (empty.exit_code, empty.stderr) == (
        1,
        f"Error: {tmp_path}: not a run folder, there is no run.json\n",
    )
    file = tmp_path / "file"
    file.touch()
    for path, fault in (
        (file, "is a file; a run's folder is expected"),
        (tmp_path / "missing", "not a run folder, there is no run.json"),
    ):
        found = CliRunner().invoke(hotline, ["report", str(path)])
        assert (found.exit_code, found.stderr) == (1, f"Error: {path}: {fault}\n")
