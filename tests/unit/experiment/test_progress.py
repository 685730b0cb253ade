"""Test progress after its reader has closed the pipe."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from experiment.progress import Reporter, RunConsole


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
