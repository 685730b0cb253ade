"""Runs and logs with the old names of arms: one error that has the old name and the new one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from analysis.record import AnalysisError
from analysis.report import write_report
from analysis.summary import read_summary, summarise
from foundation.designs.arms import all_arms
from foundation.renamed import ARMS
from tests.harness.cli import invoke
from tests.unit.analysis.synthetic import SyntheticRun
from topologies import lifecycle

EXPECTED = "expected arm 'baseline', got its old name 'neither'"
OLD = {new: old for old, new in ARMS.items()}


def refusal(*command: str) -> str:
    """Return the error of a command that fails with one line."""
    result = invoke(*command)
    assert result.exit_code == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def with_old_names(file: Path) -> None:
    """Give the arms of a log their old names."""
    arms = pl.col("arm").cast(pl.String).replace(OLD).cast(pl.Categorical)
    pl.read_parquet(file).with_columns(arms).write_parquet(file)


def test_every_old_name_has_a_new_one() -> None:
    assert set(ARMS.values()) <= set(all_arms()) and not set(ARMS) & set(all_arms())


@pytest.mark.parametrize("command", ["report", "answer fit", "answer predict", "compare", "figures"])
def test_a_record_with_old_names_is_refused(synthetic_run: SyntheticRun, command: str) -> None:
    run = synthetic_run.folder
    text = (run / "run.json").read_text()
    for new, old in OLD.items():
        text = text.replace(json.dumps(new), json.dumps(old))
    (run / "run.json").write_text(text)
    options = {
        "answer predict": ["--from", str(run)],
        "compare": [str(run)],
        "figures": ["-o", str(run / "figures")],
    }
    expected = f"Error: {run / 'run.json'}: {EXPECTED}"
    assert refusal(*command.split(), str(run), *options.get(command, [])) == expected


def test_a_record_with_an_old_field_is_refused(synthetic_run: SyntheticRun) -> None:
    file = synthetic_run.folder / "run.json"
    file.write_text(file.read_text().replace('"max_lateness_ns"', '"behind_ns"'))
    message = refusal("report", str(synthetic_run.folder))
    assert message.startswith(f"Error: {file}: blocks.0.")
    assert message.endswith(": expected field 'max_lateness_ns', got its old name 'behind_ns'")


@pytest.mark.parametrize("log", ["rpc", "operations"])
def test_logs_with_old_names_are_refused(synthetic_run: SyntheticRun, log: str) -> None:
    file = synthetic_run.folder / f"{log}.parquet"
    with_old_names(file)
    message = refusal("report", str(synthetic_run.folder))
    assert message.startswith(f"Error: {file}: expected arm ") and "old name" in message


def test_a_check_of_logs_names_the_row(synthetic_run: SyntheticRun) -> None:
    file = synthetic_run.folder / "operations.parquet"
    with_old_names(file)
    assert refusal("logs", "check", str(file)) == f"Error: {file}, row 1: {EXPECTED}"


def test_a_summary_with_old_names_is_refused(synthetic_run: SyntheticRun) -> None:
    run, record = synthetic_run.folder, synthetic_run.record
    write_report(run, record, summarise(run, record))
    assert read_summary(run).capacity == record.capacity
    file = run / "summary.json"
    file.write_text(file.read_text().replace('"baseline": 200.0', '"neither": 200.0'))
    with pytest.raises(AnalysisError, match=rf"^{file}: {EXPECTED}$"):
        read_summary(run)


@pytest.mark.parametrize("write", [pl.DataFrame.write_csv, pl.DataFrame.write_parquet])
def test_a_clusters_logs_with_old_names_are_refused(
    tmp_path: Path, write: Callable[[pl.DataFrame, Path], None]
) -> None:
    times = {f"{metric}_us": 1.0 for metric in ("w_proc", "w_queue", "ps_proc", "ps_queue", "n_tx")}
    row = {
        "worker": "w1", "ps": "p1", "iteration": 1, "op": "pull", "t_send_us": 1, "request_bytes": 60,
        "response_bytes": 60, **times, "arm": "neither",
    }  # fmt: skip
    suffix = "csv" if write is pl.DataFrame.write_csv else "parquet"
    write(pl.DataFrame([row]), tmp_path / f"rpc.{suffix}")
    assert refusal("report", "--logs", str(tmp_path)) == f"Error: {tmp_path}: {EXPECTED}"


def test_a_configuration_with_old_names_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "configure_logging", lambda console: None)
    file = tmp_path / "run.toml"
    file.write_text('arms = ["neither", "hot"]\n')
    simulated = invoke("simulate", file)
    assert simulated.exit_code == 1 and f"CONFIG={file}: {EXPECTED}" in simulated.stderr
    # What `hotline run` calls, without its handlers of signals and logs.
    assert lifecycle.main([f"CONFIG={file}"]) == 1
    assert f"CONFIG={file}: {EXPECTED}" in capsys.readouterr().err


def test_options_and_schedules_with_old_names_are_refused(tmp_path: Path) -> None:
    message = refusal("faults", "--arm", "both")
    assert message == "Error: expected arm 'offload-proxy', got its old name 'both'"
    schedule = tmp_path / "fault.json"
    for arm, expected in (
        ("hot", "expected arm 'offload', got its old name 'hot'"),
        ("none", "expected field 'injections', got its old name 'strikes'"),
    ):
        schedule.write_text(json.dumps({"fault": "loss", "arm": arm, "seed": 1, "strikes": []}))
        assert refusal("faults", "--replay", str(schedule)).endswith(expected)
