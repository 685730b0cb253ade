"""Fig. 9's measurement in a real network: every setting, through the real program, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from hotline_paper.connections.figure import delay_against_connections
from hotline_paper.connections.settings import settings

pytestmark = pytest.mark.mininet
PATIENCE_S = 600


def start(output: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hotline_paper.connections", "-o", str(output), *options]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.soak
def test_every_setting_is_measured_through_the_switch(tmp_path: Path) -> None:
    """Callers that the switch did not know, or a server that missed a socket, would have no answer."""
    output = tmp_path / "found" / "c.parquet"
    process = start(output, "--rounds", "1", "--max-connections", "20")
    output_text, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors.count("Traceback")) == (0, 0), errors
    rows = pl.read_parquet(output)
    expected = {(each.way, each.connections, each.active, each.arm.name) for each in settings([1, 4, 16, 20])}
    assert set(rows.select("way", "connections", "active", "arm").iter_rows()) == expected
    assert output_text == f"{output}: {len(expected)} measurements\n"
    assert (rows["mean_us"] > 0).all() and (rows["p50_us"] <= rows["p99_us"]).all()
    assert len([panel for panel in delay_against_connections(output).panels if panel.series]) == 6


@pytest.mark.soak
def test_ctrl_c_ends_the_measurement_and_leaves_nothing(tmp_path: Path) -> None:
    output = tmp_path / "c.parquet"
    process = start(output)
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "c.logs" / "server.log").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130 and "Traceback" not in errors
    assert not output.exists()
