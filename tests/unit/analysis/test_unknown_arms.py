"""Runs, logs and options with the name of no arm: one error with the name, its place, and the known names."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from analysis.record import AnalysisError
from analysis.report import write_report
from analysis.summary import read_summary, summarise
from foundation.designs.arms import all_arms
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.unit.analysis.synthetic import SyntheticRun

UNKNOWN = "neither"
RENAMED = pl.col("arm").cast(pl.String).replace("baseline", UNKNOWN).cast(pl.Categorical)

FAULT_ARM = (
    "expected arm (offload, offload-proxy, collect, none), in a network ARM@spine, ARM@leaves, "
    "ARM@worker-leaves, ARM@both, collect@worker-leaves-sprayed, or "
    f"MODULE:ARM of a design, got '{UNKNOWN}'"
)
ONE = {"kind": "delay", "after": 1, "duration_us": 1, "target": 0}
"""The injection of a schedule."""


def expected_arms() -> str:
    """Return the end of an error, with the arms that are known now: modules of tests add designs."""
    return f"expected an arm ({', '.join(all_arms())}), got '{UNKNOWN}'"


def refusal(*command: str) -> str:
    """Return the error of a command that fails with one line."""
    result = invoke(*command)
    assert result.exit_code == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", ["report", "answer fit", "answer predict", "compare", "figures"])
def test_a_record_with_an_unknown_arm_is_refused(synthetic_run: SyntheticRun, command: str) -> None:
    run = synthetic_run.folder
    text = (run / "run.json").read_text()
    (run / "run.json").write_text(text.replace('"baseline"', f'"{UNKNOWN}"'))
    options = {
        "answer predict": ["--from", str(run)],
        "compare": [str(run)],
        "figures": ["-o", str(run / "figures")],
    }
    expected = f"Error: {run / 'run.json'}: jobs: {expected_arms()}"
    assert refusal(*command.split(), str(run), *options.get(command, [])) == expected


@pytest.mark.parametrize("place", ["jobs", "capacity", "blocks"])
def test_the_place_of_an_unknown_arm_in_a_record_is_named(synthetic_run: SyntheticRun, place: str) -> None:
    file = synthetic_run.folder / "run.json"
    record = json.loads(file.read_text())
    record[place] = json.loads(json.dumps(record[place]).replace('"baseline"', f'"{UNKNOWN}"'))
    file.write_text(json.dumps(record))
    assert refusal("report", str(file.parent)) == f"Error: {file}: {place}: {expected_arms()}"


def test_a_record_with_an_unknown_field_is_refused(synthetic_run: SyntheticRun) -> None:
    file = synthetic_run.folder / "run.json"
    text = file.read_text()
    file.write_text(text.replace('"max_lateness_ns"', '"behind_ns": 1, "max_lateness_ns"'))
    message = refusal("report", str(synthetic_run.folder))
    assert message.startswith(f"Error: {file}: blocks.0.")
    assert says(message, "behind_ns", "field")
    file.write_text(text.replace('"max_lateness_ns"', '"behind_ns"'))
    message = refusal("report", str(synthetic_run.folder))
    assert message.startswith(f"Error: {file}: blocks.0.")
    assert says(message, "max_lateness_ns", "field")


@pytest.mark.parametrize("log", ["rpc", "operations"])
def test_logs_with_an_unknown_arm_are_refused(synthetic_run: SyntheticRun, log: str) -> None:
    file = synthetic_run.folder / f"{log}.parquet"
    pl.read_parquet(file).with_columns(RENAMED).write_parquet(file)
    assert refusal("report", str(synthetic_run.folder)) == f"Error: {file}: {expected_arms()}"


def test_a_check_of_logs_names_the_row_with_an_unknown_arm(synthetic_run: SyntheticRun) -> None:
    file = synthetic_run.folder / "operations.parquet"
    rows = pl.read_parquet(file)
    rows.with_columns(RENAMED).write_parquet(file)
    row = rows["arm"].cast(pl.String).to_list().index("baseline") + 1
    message = refusal("logs", "check", str(file))
    assert message.startswith(f"Error: {file}, row {row}: arm is {UNKNOWN}, job is 2; expected the job of ")
    assert "'baseline': 2" in message


def test_a_summary_with_an_unknown_arm_is_refused(synthetic_run: SyntheticRun) -> None:
    run, record = synthetic_run.folder, synthetic_run.record
    write_report(run, record, summarise(run, record))
    assert read_summary(run).capacity == record.capacity
    file = run / "summary.json"
    file.write_text(file.read_text().replace('"baseline": 200.0', f'"{UNKNOWN}": 200.0'))
    with pytest.raises(AnalysisError) as refused:
        read_summary(run)
    assert str(refused.value) == f"{file}: capacity: {expected_arms()}"


def test_a_cluster_may_have_arms_of_any_name(tmp_path: Path) -> None:
    times = {f"{metric}_us": 1.0 for metric in ("w_proc", "w_queue", "ps_proc", "ps_queue", "n_tx")}
    row = {
        "worker": "w1", "ps": "p1", "iteration": 1, "op": "pull", "t_send_us": 1, "request_bytes": 60,
        "response_bytes": 60, **times, "arm": UNKNOWN,
    }  # fmt: skip
    pl.DataFrame([row]).write_csv(tmp_path / "rpc.csv")
    page = tmp_path / "page.html"
    ended = invoke("report", "--logs", str(tmp_path), "-o", str(page))
    assert ended.exit_code == 0, ended.output
    assert UNKNOWN in page.read_text()


def test_an_option_with_an_unknown_arm_is_refused() -> None:
    assert refusal("faults", "--arm", UNKNOWN) == f"Error: {FAULT_ARM}"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arm": UNKNOWN}, f"arm: {FAULT_ARM}"),
        ({"strikes": []}, "strikes: there is no such field"),
        ({"seed": None}, "seed: Input should be a valid integer"),
        ({"fault": "fire"}, "fault: expected fault (loss, duplication, "),
        ({"injections": [{**ONE, "late_us": 1}]}, "injections.0.late_us: there is no such field"),
        ({"injections": [{"kind": "down"}]}, "injections.0.after: expected this field, found none"),
        ({"injections": [{**ONE, "kind": "x"}]}, "injections.0.kind: expected one of delay, "),
        (
            {"injections": [{**ONE, "target": 5}]},
            "injections.0.target: expected 0 to 4, got 5",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_schedule_of_faults_with_an_unknown_arm_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    schedule = tmp_path / "fault.json"
    schedule.write_text(json.dumps({"fault": "loss", "arm": "none", "seed": 1, **changes}))
    expected = f"Error: {schedule}: expected a schedule: {message}"
    assert refusal("faults", "--replay", str(schedule)).startswith(expected)


def test_a_configuration_with_an_unknown_arm_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f'arms = ["{UNKNOWN}", "offload"]\n')
    expected = (
        f"arms ({UNKNOWN}, offload) must be some of baseline, repeat, proxy, offload, offload-proxy, "
        "including baseline"
    )
    assert refusal("simulate", str(file)) == f"Error: CONFIG={file}: {expected}"
