"""How long a run profiles, tested without traffic, and the warning about tiny mini-batches."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from experiment.config import Config
from experiment.hotset import profile
from experiment.phases.workload import read_data
from foundation.logs.access.block import ReadOptions
from hosts.workload import files
from tests.harness.sessions import quiet
from tests.unit.experiment.test_measure import WORKERS, PlayedSession


def log_of(path: Path, iterations: int, keys: int) -> Path:
    rows = [f"{iteration},1,{key}" for iteration in range(iterations) for key in range(keys)]
    path.write_text("\n".join(["iteration,worker,key", *rows]))
    return path


@pytest.mark.parametrize(
    ("lanes", "steps"),
    [
        (1_000_000, 25),  # one key an iteration: the pass over 100 iterations ends it
        (100, 25),
        (40, 11),  # 10.2 steps of 4 workers
        (1, 1),
    ],
)
async def test_profiling_takes_the_lanes_it_needs_and_one_pass_at_most(
    tmp_path: Path, lanes: int, steps: int
) -> None:
    trace = files.load_log(
        log_of(tmp_path / "log.csv", iterations=25 * WORKERS, keys=1), WORKERS, ReadOptions()
    )
    session = PlayedSession(Config(profile_lanes=lanes, workers=WORKERS))
    await profile(session, trace)
    [played] = session.played
    assert (played["arm"], played["first_step"], played["steps"]) == ("profile", 0, steps)
    assert session.next_step == steps


@pytest.mark.parametrize(("keys", "warned"), [(1, True), (31, True), (32, False)])
def test_tiny_mini_batches_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keys: int, warned: bool
) -> None:
    log = log_of(tmp_path / "log.csv", iterations=4, keys=keys)
    assert read_data(Config(data=log), quiet()) is not None
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [f"of {keys} keys on average" in message for message in warnings] == [True] * warned
