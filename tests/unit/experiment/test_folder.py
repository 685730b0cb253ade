"""The run that `runs/latest` points to, and the progress that a run reports."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from experiment.folder import create_run_folder, finish_run_folder, point_to_latest
from experiment.progress import Reporter, RunConsole
from topologies import cleanup, run_lock
from topologies.run_lock import hold_run_lock


def run_of(runs: Path, day: int, *files: str) -> Path:
    run = create_run_folder(runs, "softswitch")
    for name in files:
        (run / name).write_text("{}")
        os.utime(run / name, (day * 86400, day * 86400))
    return run


def latest(runs: Path) -> Path:
    return (runs / "latest").resolve()


def test_the_latest_run_is_the_last_folder_with_a_record_or_a_report(tmp_path: Path) -> None:
    run_of(tmp_path, 1, "run.json", "report.html")
    last = run_of(tmp_path, 3, "run.json")
    # A run of an earlier day whose folder is created later.
    run_of(tmp_path, 2, "run.json")
    run_of(tmp_path, 4)
    for _ in range(2):
        point_to_latest(tmp_path)
        assert latest(tmp_path) == last
    only_a_report = run_of(tmp_path, 5, "report.html")
    point_to_latest(tmp_path)
    assert latest(tmp_path) == only_a_report
    assert not (tmp_path / ".latest.partial").is_symlink()


def test_without_runs_there_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to("gone")
    point_to_latest(tmp_path)
    assert list(tmp_path.iterdir()) == []
    point_to_latest(tmp_path / "nowhere")


def test_a_killed_run_is_the_latest_after_its_folder_is_tidied(tmp_path: Path) -> None:
    before = run_of(tmp_path, 1, "run.json", "report.html")
    killed = run_of(tmp_path, 2, "run.json")
    (tmp_path / "latest").symlink_to(before.name)
    assert finish_run_folder(killed)
    assert latest(tmp_path) == killed


def test_cleaning_up_leaves_no_link_to_a_run_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lock, "MARK", f"HOTLINE_TEST_{os.getpid()}")  # runs go on beside this
    monkeypatch.setattr(run_lock, "hold_run_lock", lambda _: hold_run_lock([], tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)
    stored = run_of(tmp_path / "runs", 1, "run.json")
    (tmp_path / "runs" / "latest").symlink_to("20260101-000000-softswitch")
    assert cleanup.main([]) == 0
    assert latest(tmp_path / "runs") == stored


def test_a_run_goes_on_when_the_reader_of_its_progress_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In `make run-topo 2>&1 | cat`, Ctrl-C ends cat as well."""
    reading, writing = os.pipe()
    os.close(reading)
    # What it never took, its file cannot write at the end either.
    with suppress(BrokenPipeError), open(writing, "w", buffering=1) as broken:
        monkeypatch.setattr(sys, "stderr", broken)
        reporter = Reporter(RunConsole())
        for name in ("load", "logs"):
            with reporter.phase(name):
                (tmp_path / name).touch()
    assert set(reporter.durations) == {"load", "logs"} == {file.name for file in tmp_path.iterdir()}
