"""`tools.bench.deaths` on recorded times of steps, and its trainer in a session on loopback addresses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from click.testing import CliRunner

from switch_harness.wording import says
from tests.harness.loopback import running_rendezvous
from tools.bench.deaths import __main__ as command
from tools.bench.deaths import trainer
from tools.bench.deaths.checkpoints import lost_s, steps_in
from tools.bench.deaths.restarts import Restart, of_times
from tools.bench.deaths.session import BenchError, Session
from tools.bench.deaths.steps import age, logged_step, rate, read_times
from tools.bench.deaths.training import STEPS, WORKERS, Trained, train


def write_events(file: Path, *events: float) -> None:
    with file.open("ab") as log:
        log.write(np.array(events).tobytes())


def test_an_interrupted_step_has_begun_and_has_no_acknowledgement(tmp_path: Path) -> None:
    file = tmp_path / "0.steps"
    assert [times.tolist() for times in read_times(file)] == [[], []]
    with file.open("ab", buffering=0) as log:
        with logged_step(log):
            pass
        with pytest.raises(KeyboardInterrupt), logged_step(log):
            raise KeyboardInterrupt
    begun, acknowledged = read_times(file)
    assert (len(begun), len(acknowledged)) == (2, 1)
    assert 0 < begun[0] <= acknowledged[0] <= begun[1]


def test_steps_are_counted_in_a_window_without_its_end() -> None:
    times = np.array([1.0, 2.0, 2.5, 3.0, 4.0])
    assert (rate(times, 2.0, 4.0), rate(times, 5.0, 6.0)) == (1.5, 0)


@pytest.mark.parametrize(("count", "lost"), [(0, 9.0), (1, 9.0), (2, 8.0), (3, 0.0), (4, 0.0)])
def test_lost_training_is_the_time_since_the_last_step_of_a_state(count: int, lost: float) -> None:
    assert age(np.array([1.0, 2.0, 4.0]), count, 10.0) == lost


def a_session(folder: Path, workers: int) -> Session:
    return Session(folder, workers, 0, ())


def test_a_kill_loses_the_time_of_the_worker_of_which_a_checkpoint_has_least(tmp_path: Path) -> None:
    checkpoint, killed = tmp_path / "model.npz", a_session(tmp_path, 2)
    write_events(tmp_path / "0.steps", -0.5, 1.0, -1.5, 2.0, -3.5, 4.0, -9)
    write_events(tmp_path / "1.steps", -0.5, 1.5, -2.5, 3.0, -4.5, 5.0)
    assert lost_s(killed, steps_in(checkpoint, 2), 10.0) == 9.0
    np.savez(checkpoint, count=np.array([[3], [2]]))
    assert lost_s(killed, steps_in(checkpoint, 2), 10.0) == 7.0
    restored = np.array([0.0, 1.0])
    assert lost_s(killed, steps_in(checkpoint, 2) - restored, 10.0) == 8.5


def test_rates_of_other_workers_are_of_windows_before_during_and_after_an_absence() -> None:
    others = [np.arange(0.0, 12.0, 0.5), np.arange(0.25, 6.0, 0.25)]
    assert of_times("busy", others, 4.0, 7.0)[1:] == pytest.approx((2 + 4, (6 + 8) / 3, 2, 3.0))


def test_a_worker_that_fails_ends_the_study_with_its_rank_and_status(tmp_path: Path) -> None:
    running = a_session(tmp_path, 2)
    running._processes[1] = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"], text=True)
    with pytest.raises(BenchError) as raised:
        running.wait_for(lambda: False)
    assert says(str(raised.value), "worker 1", tmp_path, 3)


class MadeUpSession:
    """Workers that take a step between two looks at them, and whose every second kill interrupts a step."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.kills, self._life = folder, list[tuple[int, int]](), dict[int, bool]()

    def log(self, rank: int) -> Path:
        return self._folder / f"{rank}.steps"

    def start_all(self) -> None:
        self._life = dict.fromkeys(range(WORKERS), True)

    def start(self, rank: int) -> None:
        self._life[rank] = True

    def kill(self, rank: int) -> None:
        assert self._life[rank]
        self._life[rank] = False
        self.kills.append((rank, len(read_times(self.log(rank))[0])))
        if len(self.kills) % 2:
            write_events(self.log(rank), -float(self.kills[-1][1]))

    def has_ended(self, rank: int) -> bool:
        return len(read_times(self.log(rank))[0]) == STEPS

    def wait_for(self, condition: Callable[[], bool]) -> None:
        while not condition():
            for rank in range(WORKERS):
                if not self.has_ended(rank):
                    step = float(len(read_times(self.log(rank))[0]))
                    write_events(self.log(rank), -(step + 0.25), step + 0.5)

    def output(self, rank: int) -> str:
        return f"[0.5, {WORKERS * STEPS - 1}]"


def test_each_worker_is_killed_after_each_interval_of_its_steps_and_not_after_the_last_one(
    tmp_path: Path,
) -> None:
    training = MadeUpSession(tmp_path)
    found = train(cast(Session, training), 200, 7)
    assert sorted(training.kills) == [(0, 200), (0, 400), (1, 200), (1, 400)]
    assert found == Trained(200, 7, 0.5, 4, 2, 1, STEPS - 0.5 - 0.25)


def test_the_command_prints_the_measurements_of_the_chosen_studies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def study(passes: int, folder: Path) -> Iterator[Restart]:
        assert folder.parent.parent == tmp_path
        yield from [Restart("busy", before=passes, away=1, after=2, away_s=0.5)] * 2

    monkeypatch.setitem(command.STUDIES, "restarts", (study, 1))
    options = ["--passes", "2", "--only", "restarts", "--folder", str(tmp_path), "--json"]
    ran = CliRunner().invoke(command.main, options, catch_exceptions=False)
    assert json.loads(ran.stdout) == {
        "restarts": [{"load": "busy", "before": 2, "away": 1, "after": 2, "away_s": 0.5}] * 2
    }
    assert says(ran.stderr, "restarts", "2 of 2")


def test_a_trainer_goes_on_after_the_steps_that_its_predecessor_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(tmp_path / "0.steps", -0.5, 1.0, -1.5)
    with running_rendezvous(tmp_path, size=1) as running:
        monkeypatch.setenv("HOTLINE_CONNECT", str(running.place))
        options = ["--rank", "0", "--workers", "1", "--log", str(tmp_path / "0.steps"), "--steps", "5"]
        ran = CliRunner().invoke(trainer.main, [*options, "--rows", "400"], catch_exceptions=False)
        assert json.loads(ran.stdout) == [None, 3]
    assert [len(times) for times in read_times(tmp_path / "0.steps")] == [5, 4]


def test_a_trainer_of_ratings_lowers_the_error_of_held_out_ratings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "RATINGS", 20_000)

    def rmse(name: str, steps: int) -> float:
        options = ["--rank", "0", "--workers", "1", "--log", str(tmp_path / name), "--steps", f"{steps}"]
        with running_rendezvous(tmp_path, size=1) as running:
            monkeypatch.setenv("HOTLINE_CONNECT", str(running.place))
            ran = CliRunner().invoke(trainer.main, options, catch_exceptions=False)
        found, counted = json.loads(ran.stdout)
        assert counted == steps
        return float(found)

    assert (rmse("untrained", 0), rmse("trained", 200)) == pytest.approx((0.922, 0.769), abs=0.002)
