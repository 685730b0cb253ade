"""Stages: finished ones are reused, a failed one is named, and Ctrl-C ends at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import tomli

from experiment.run_config import Config
from hotline_paper import stages
from hotline_paper.plan import Stage, all_stages, map_stages
from hotline_paper.stages import StageFailed, is_done, result_path, run_stages, to_toml
from switch_harness.wording import says_in_one_line

ROOT = Path(__file__).parents[4]
LONG = """
import os, signal, sys
from pathlib import Path

def handle_sigint(number, frame):
    Path({folder!r}, "interrupted").touch()
    sys.exit(1)

signal.signal(signal.SIGINT, handle_sigint)
Path({folder!r}, "pid").write_text(str(os.getpid()))
signal.pause()
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace stages by shell commands that append their name to a file and make their result."""

    def command(stage: Stage, folder: Path, config: Path) -> list[str]:
        result = result_path(stage, folder)
        make_result = f"mkdir -p {result}; touch {result}/report.html" if stage.is_run else f"touch {result}"
        return ["sh", "-c", f"echo {stage.name} >> {folder}/done; {stage.settings['then']}; {make_result}"]

    monkeypatch.setattr(stages, "_command", command)


def stage(name: str, then: str = "true", is_run: bool = True) -> Stage:
    return Stage(name, 10, {"then": then}, is_run)


def done(folder: Path) -> list[str]:
    return (folder / "done").read_text().split()


def ignore_progress(done: float, total: float, what: str) -> None:
    pass


def test_finished_work_is_repeated_only_with_other_settings(shell: None, tmp_path: Path) -> None:
    todo = [stage("a"), stage("b", is_run=False)]
    run_stages(todo, tmp_path, ignore_progress)
    assert all(is_done(each, tmp_path) for each in todo)
    run_stages([*todo, stage("c")], tmp_path, ignore_progress)
    assert done(tmp_path) == ["a", "b", "c"]
    run_stages([stage("a", then="false || true")], tmp_path, ignore_progress)
    assert done(tmp_path) == ["a", "b", "c", "a"]


def test_a_failed_stage_is_reported_with_its_last_line_and_repeated(shell: None, tmp_path: Path) -> None:
    broken = stage("b", then="echo first; echo PS 1 did not answer >&2; exit 3")
    message = r"^stage b ended with code 3: PS 1 did not answer; see .*/stage\.log$"
    with pytest.raises(StageFailed, match=message):
        run_stages([stage("a"), broken, stage("c")], tmp_path, ignore_progress)
    assert done(tmp_path) == ["a", "b"] and not is_done(broken, tmp_path)
    with pytest.raises(StageFailed):
        run_stages([stage("a"), broken], tmp_path, ignore_progress)
    assert done(tmp_path) == ["a", "b", "b"]


def test_progress_of_stages_is_counted_in_planned_seconds(shell: None, tmp_path: Path) -> None:
    reports: list[tuple[float, float, str]] = []
    run_stages([stage("a"), stage("b")], tmp_path, lambda *each: reports.append(each))
    assert {(total, name) for _, total, name in reports} == {(20, "a"), (20, "b"), (20, "report")}
    assert [at for at, _, _ in reports] == sorted(at for at, _, _ in reports) and reports[-1][0] == 20


def test_ctrl_c_ends_the_current_stage_and_keeps_finished_stages(
    shell: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The stage's command and its children get the signal, too."""
    script = tmp_path / "long.py"
    script.write_text(LONG.format(folder=str(tmp_path)))
    long = stage("b", then=f"exec {sys.executable} {script}")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupt() -> None:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_stages([stage("a"), long], tmp_path, ignore_progress)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert done(tmp_path) == ["a", "b"] and (tmp_path / "interrupted").exists()
    assert says_in_one_line(capfd.readouterr().err, "stage b")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    assert is_done(stage("a"), tmp_path)


def test_the_planned_stages_are_valid_configurations() -> None:
    for quick, minutes in ((True, 5), (False, 30)):
        found = all_stages(quick)
        assert len({each.name for each in found}) == len(found)
        assert sum(each.seconds for each in found) < 60 * minutes
        assert [each for each in map_stages(quick) if each not in found] == []
        for each in found:
            if each.is_run:
                values = tomli.loads(to_toml({**each.settings, "runs": "r"}))
                assert Config.model_validate(values).runs == Path("r")


def test_settings_written_as_toml_read_back_equal() -> None:
    values = {"a": 1, "shape": {"b": 0.5, "c": "x"}, "d": ["e", "f"], "g": True}
    assert tomli.loads(to_toml(values)) == values


def test_stages_run_the_commands_of_the_checkout(tmp_path: Path) -> None:
    run = stages._command(Stage("r1", 1), tmp_path, tmp_path / "run.toml")
    assert run == [str(ROOT / "hotline"), "run", f"CONFIG={tmp_path}/run.toml"]
    fig_9 = stages._command(
        Stage("c", 1, {"rounds": 2, "max-connections": 64}, is_run=False), tmp_path, tmp_path / "x"
    )
    assert fig_9[1:] == [
        "-m", "hotline_paper.connections", "-o", f"{tmp_path}/c/connections.parquet",
        "--rounds=2", "--max-connections=64",
    ]  # fmt: skip
