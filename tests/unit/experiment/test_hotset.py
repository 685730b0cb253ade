"""How long a run profiles, tested without traffic, and the warning about tiny mini-batches."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from experiment.hotset_arms import profile
from experiment.phases.workload import read_data
from experiment.run_config import Config
from hosts.workload.trace import Trace
from switch_harness.wording import says
from tests.harness.sessions import quiet
from tests.unit.experiment.test_measure import WORKERS, PlayedSession


def log_of(path: Path, iterations: int, keys: int) -> Path:
    rows = [f"{iteration},1,{key}" for iteration in range(iterations) for key in range(keys)]
    path.write_text("\n".join(["iteration,worker,key", *rows]))
    return path


@pytest.mark.parametrize(
    ("lanes", "steps"),
    [
        (1_000_000, 12),  # one key an iteration: the other 13 of 25 steps are measured
        (40, 11),  # 10.2 steps of 4 workers
        (1, 1),
    ],
)
async def test_profiling_takes_its_number_of_lanes_and_at_most_half_of_the_data(
    tmp_path: Path, lanes: int, steps: int
) -> None:
    log = log_of(tmp_path / "log.csv", iterations=25 * WORKERS, keys=1)
    config = Config(profile_lanes=lanes, workers=WORKERS, data=log)
    session, trace = PlayedSession(config), read_data(config, quiet())
    assert trace is not None
    await profile(session, trace)
    [played] = session.played
    assert (played["arm"], played["first_step"], played["steps"]) == ("profile", 0, steps)
    assert session.next_step == steps


async def test_measured_steps_are_not_profiled_steps(tmp_path: Path) -> None:
    """The keys of the profile, but for one, are in no later step, however often the log is repeated."""
    log = tmp_path / "log.csv"
    of_all_steps = 5 * WORKERS  # the last position of each step
    rows = [f"{k},1,{k}\n{k},1,{of_all_steps}\n" for k in range(5 * WORKERS)]
    log.write_text("iteration,worker,key\n" + "".join(rows))
    config = Config(workers=WORKERS, data=log)
    session, trace = PlayedSession(config), read_data(config, quiet())
    assert trace is not None and trace.profile_steps == 2
    trace.save(tmp_path / "trace")
    trace = Trace.load(tmp_path / "trace")  # as agents map it
    await profile(session, trace)
    first = session.take_steps(30)
    for worker in range(1, WORKERS + 1):
        profiled = {int(trace.batch(worker, step).positions[0]) for step in range(first)}
        later = [int(trace.batch(worker, step).positions[0]) for step in range(first, first + 30)]
        assert len(profiled) == 2 and not profiled & set(later)
        assert [later.count(position) for position in sorted(set(later))] == [10, 10, 10]


def test_a_log_with_one_step_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_data(Config(workers=4, data=log_of(tmp_path / "log.csv", iterations=4, keys=40)), quiet())
    assert says(caplog.text, "mini-batches", "measured")


@pytest.mark.parametrize(("keys", "warned"), [(1, True), (31, True), (32, False)])
def test_tiny_mini_batches_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, keys: int, warned: bool
) -> None:
    log = log_of(tmp_path / "log.csv", iterations=8, keys=keys)
    assert read_data(Config(data=log), quiet()) is not None
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [f"of {keys} keys on average" in message for message in warnings] == [True] * warned
