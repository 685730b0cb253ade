"""Recovery of the unreplayed updates that a crashed run left in its files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from experiment.folder import finish_run_folder
from hosts.keys import KeySpace
from hosts.replay import ReplayLog, file_name
from hosts.unreplayed import UNREPLAYED_FOLDER
from hotline.cli.commands import hotline
from hotline_agents.offline_recovery import CrashedRun, UnreplayedCount, open_crashed_run
from switch_harness.wording import says
from tests.harness.crashed_run import JOB, SIZE, CrashedRunFolder


def recover(run: Path, *options: str) -> Result:
    return CliRunner().invoke(hotline, ["recover", str(run), *options], catch_exceptions=False)


def unreplayed_in(run: Path) -> list[UnreplayedCount]:
    with open_crashed_run(run) as crashed_run:
        return crashed_run.unreplayed()


def recover_in(run: Path) -> int:
    with open_crashed_run(run) as crashed_run:
        return crashed_run.recover()


def test_unreplayed_updates_are_listed_and_applied_once(tmp_path: Path) -> None:
    run = CrashedRunFolder(tmp_path)
    unreplayed = unreplayed_in(tmp_path)
    assert [(each.worker, each.job) for each in unreplayed] == [("worker-1", JOB), ("worker-2", JOB)]
    missing, keys = np.count_nonzero(run.pushed - run.held()), [each.keys for each in unreplayed]
    assert max(keys) <= missing <= sum(keys)
    reported = json.loads(recover(tmp_path, "--json").stdout)
    assert reported == {"unreplayed": [each._asdict() for each in unreplayed]}
    for _ in range(2):  # the second call finds nothing to do
        ran = recover(tmp_path, "--apply")
        assert ran.exit_code == 0, ran.output
        assert run.held().tolist() == run.pushed.tolist()
        assert unreplayed_in(tmp_path) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["logs", "run.json", UNREPLAYED_FOLDER]


@pytest.mark.parametrize(("homes", "levels"), [(2, 1), (1, 2)])
def test_lost_updates_of_several_homes_are_replayed_and_settled_at_each_home(
    tmp_path: Path, homes: int, levels: int
) -> None:
    """Homes had acknowledged updates that no server has: each worker's own, or those of two levels."""
    run = CrashedRunFolder(tmp_path, homes=homes, levels=levels)
    if levels == 2:
        words = ReplayLog.reopen(run.files / file_name("worker-1", JOB), KeySpace(SIZE), (0, 0)).acknowledged
        assert words.reshape(2, SIZE).any(axis=1).all()
    assert (run.held() != run.pushed).any() and len(unreplayed_in(tmp_path)) == 2
    for _ in range(2):
        assert recover_in(tmp_path) == 0
        assert run.held().tolist() == run.pushed.tolist() and run.pushed.any()


def test_updates_still_missing_after_a_recovery_are_an_error(tmp_path: Path) -> None:
    """The replay log has lost an update."""
    run = CrashedRunFolder(tmp_path)
    log = ReplayLog.reopen(tmp_path / UNREPLAYED_FOLDER / file_name("worker-2", JOB), KeySpace(SIZE), (0,))
    lost = int(np.flatnonzero(log.words)[0])
    log.words[lost] = 0
    ran = recover(tmp_path, "--apply")
    assert ran.exit_code == 1 and "1 key differ" in ran.output
    assert np.flatnonzero(run.held() != run.pushed).tolist() == [lost]


def test_an_interrupted_recovery_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = CrashedRunFolder(tmp_path)
    before = run.held().tolist()

    def interrupt(*_arguments: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(CrashedRun, "_count_mismatches", interrupt)
        with pytest.raises(KeyboardInterrupt):
            recover_in(tmp_path)
    assert run.held().tolist() == before and len(unreplayed_in(tmp_path)) == 2
    assert recover_in(tmp_path) == 0 and run.held().tolist() == run.pushed.tolist()


def test_a_server_that_cannot_be_recovered_closes_its_file(tmp_path: Path) -> None:
    """The connections are what `process_state.closed_connections` checks at the end of every test."""
    run = CrashedRunFolder(tmp_path)
    _, durable = run.open_server(1)
    durable.checkpoint([("cells of another version", b"")])
    durable.close()
    with pytest.raises(KeyError):
        recover_in(tmp_path)


EPOCHS = (0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)


@pytest.mark.parametrize("controller", EPOCHS)
@pytest.mark.parametrize("epoch", (1, 2**31, 2**32 - 1))
def test_any_stored_epoch_precedes_the_epoch_of_a_recovery(
    tmp_path: Path, controller: int, epoch: int
) -> None:
    """A controller's epoch is a time in ms modulo 2^32, so any epoch may precede a recovery."""
    run = CrashedRunFolder(tmp_path, controller=controller, epoch=epoch)
    for _ in range(2):
        assert recover_in(tmp_path) == 0
        assert run.held().tolist() == run.pushed.tolist() and run.pushed.any()


def test_a_run_is_recovered_by_one_process_at_a_time(tmp_path: Path) -> None:
    run = CrashedRunFolder(tmp_path)
    with open_crashed_run(tmp_path) as crashed_run:
        before = run.held().tolist()
        for options in ([], ["--apply"]):
            ran = recover(tmp_path, *options)
            assert ran.exit_code == 1 and says(ran.output, "`hotline recover`", "another")
        assert run.held().tolist() == before
        assert crashed_run.recover() == 0
    assert recover(tmp_path, "--apply").exit_code == 0 and run.held().tolist() == run.pushed.tolist()


def test_a_killed_run_can_be_recovered_once_its_folder_is_tidied(tmp_path: Path) -> None:
    run = CrashedRunFolder(tmp_path, "parts")
    ran = recover(tmp_path, "--apply")
    assert ran.exit_code == 1 and says(ran.output, "killed", "going")
    assert finish_run_folder(tmp_path)
    assert not (tmp_path / "parts").exists()
    run.files = tmp_path / UNREPLAYED_FOLDER
    assert recover_in(tmp_path) == 0 and run.held().tolist() == run.pushed.tolist()


@pytest.mark.parametrize("size", [0, 8, 1000])
def test_workers_killed_while_creating_their_files_have_no_updates(tmp_path: Path, size: int) -> None:
    run = CrashedRunFolder(tmp_path)
    with open_crashed_run(tmp_path) as crashed_run:
        settings = crashed_run.workers[0].model_copy(update={"number": 3}).model_dump_json()
    (tmp_path / "logs" / "worker-3.json").write_text(settings)
    for name in (file_name("worker-3", JOB), f"ledger-worker-3-job-{JOB}-epoch-1.bin"):
        (run.files / name).write_bytes(bytes(size))
    assert recover_in(tmp_path) == 0 and run.held().tolist() == run.pushed.tolist()


@pytest.mark.parametrize("has_replay_logs", [True, False])
def test_without_replay_logs_the_updates_in_the_switch_are_missing(
    tmp_path: Path, has_replay_logs: bool
) -> None:
    """It is an error if a run kept replay logs and they are gone; if it kept none, keys differ."""
    run = CrashedRunFolder(tmp_path)
    before = run.held().tolist()
    for worker in (1, 2):
        (run.files / file_name(f"worker-{worker}", JOB)).unlink()
        config_file = tmp_path / "logs" / f"worker-{worker}.json"
        settings = json.loads(config_file.read_text()) | {"recovery": {"replay_log": has_replay_logs}}
        config_file.write_text(json.dumps(settings))
    ran = recover(tmp_path, "--apply")
    missing = int(np.count_nonzero(run.held() != run.pushed))
    assert ran.exit_code == 1 and run.held().tolist() == before and missing > 0
    reason = "expected this replay log" if has_replay_logs else f"{missing} keys differ"
    assert reason in ran.output


def test_a_run_that_ended_before_its_servers_were_configured_cannot_be_recovered(tmp_path: Path) -> None:
    CrashedRunFolder(tmp_path)
    (tmp_path / "logs" / "ps-1.json").unlink()
    ran = recover(tmp_path, "--apply")
    assert ran.exit_code == 1 and says(ran.output, 1, "workers")


def test_recovering_a_folder_without_unreplayed_updates_is_an_error(tmp_path: Path) -> None:
    ran = recover(tmp_path)
    assert ran.exit_code == 1 and says(ran.output, "run.json", tmp_path)
    (tmp_path / "run.json").write_text("{}")
    ran = recover(tmp_path)
    assert ran.exit_code == 1 and says(ran.output, "unreplayed", tmp_path)
