"""`run.json`: its defaults, what is refused, and its format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.record import AnalysisError, RunRecord, ServerUse, Staleness, read_record
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.unit.analysis.synthetic import SyntheticRun

MINIMAL_RECORD = {
    "target": "bmv2", "config": {"workers": 2}, "machine": {"kernel": "6.1"},
    "versions": {"python": "3.11"}, "placement": {"p1": 0}, "seeds": {"seed": 1}, "jobs": {"offload": 4},
}  # fmt: skip


def test_the_record_of_a_run_that_has_only_begun_has_defaults(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(MINIMAL_RECORD))
    record = read_record(tmp_path)
    empty = (
        "workload agents phases_s capacity offered_rate memory_mb staleness machines links registers "
        "capacity_contention"
    )
    assert json.loads(record.model_dump_json()) == {
        **MINIMAL_RECORD,
        **dict.fromkeys(
            (
                "datapath",
                "ended_by",
                "accounting",
                "switch",
                "simulation",
                "virtual",
                "error",
                "recorded_design",
                "empty_rpcs_contention",
            )
        ),
        **{name: {} for name in empty.split()},
        **{key: [] for key in ("blocks", "repeated_blocks", "capacity_checks", "worker_changes")},
        "alpha": 0.05,
    }
    # Nothing of it is shared with the next.
    assert record.blocks is not read_record(tmp_path).blocks


def test_the_use_of_idle_servers_is_zero() -> None:
    counters = "packets bytes proc_wall_ns proc_cpu_ns cpu_s bursts waits commits commit_ns delayed delay_ns"
    assert ServerUse().model_dump() == dict.fromkeys(counters.split(), 0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"target": 3}, "target: Input should be a valid string"),
        ({"target": ...}, "expected the record of a run, got JSON without target"),
        ({"blocks": [{"round": 1}]}, "blocks.0.load: expected this field, found none"),
        ({"more": 1}, "more: there is no such field"),
        ({"accounting": {"sent": "x"}}, "accounting.sent: Input should be a valid integer"),
    ],
)
def test_an_invalid_record_is_refused_with_the_field_and_the_reason(
    tmp_path: Path, change: dict[str, object], why: str
) -> None:
    file = tmp_path / "run.json"
    changed = {**MINIMAL_RECORD, **change}
    # An ellipsis leaves a field out.
    file.write_text(json.dumps({name: value for name, value in changed.items() if value is not ...}))
    with pytest.raises(AnalysisError) as refusal:
        read_record(tmp_path)
    assert str(refusal.value).startswith(f"{file}: {why}")


def test_a_record_is_readable_text(tmp_path: Path) -> None:
    RunRecord.model_validate(MINIMAL_RECORD).write(tmp_path)
    text = (tmp_path / "run.json").read_text()
    assert text.startswith('{\n  "target": "bmv2",\n  "datapath": null,\n  "config": {\n    "workers": 2\n')
    assert text.endswith('  "error": null\n}\n')


def test_the_report_is_written_into_the_folder_of_the_run(synthetic_run: SyntheticRun) -> None:
    folder = synthetic_run.folder
    result = invoke("report", folder)
    assert result.exit_code == 0
    assert result.output.endswith(f"report: {folder}/report.html\n")
    assert says(result.output, "0.5", "100.0", "steps/s", 6)
    text = (folder / "summary.json").read_text()
    assert text.startswith('{\n  "target": "softswitch",\n') and text.endswith("}\n")
    assert (folder / "report.html").exists() and read_record(folder) == synthetic_run.record


def test_the_command_takes_the_latest_run(
    synthetic_run: SyntheticRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = synthetic_run.folder.parent / "runs"
    runs.mkdir()
    (runs / "latest").symlink_to(synthetic_run.folder)
    monkeypatch.chdir(runs.parent)
    result = invoke("report")
    assert result.exit_code == 0 and says(result.output, "report", "runs/latest/report.html")


def test_a_path_that_is_no_run_folder_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, fault in (
        (tmp_path, "not a run folder, there is no run.json"),
        (file, "expected the folder of a run, got a file"),
        (tmp_path / "missing", "not a run folder, there is no run.json"),
    ):
        found = invoke("report", path)
        assert (found.exit_code, found.stderr) == (1, f"Error: {path}: {fault}\n")


def test_ages_of_published_values_are_added_up_over_servers() -> None:
    bound = {"bound_ns": 3_000_000}
    one = {"copies": {"1000000": 6, "4000000": 2}, "oldest_ns": 3_500_000, "late": 1, "rpcs": 30, **bound}
    other = {"copies": {1_000_000: 90, 8_000_000: 2}, "oldest_ns": 7_000_000, "late": 2, "rpcs": 60, **bound}
    found = Staleness.of([one, other])
    assert found.model_dump() == {
        "copies": 100, "p50_ms": 1.0, "p99_ms": 7.0, "oldest_ms": 7.0, "bound_ms": 3.0, "late": 3, "rpcs": 90,
    }  # fmt: skip
