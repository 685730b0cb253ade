"""Commands list on standard error what they compile, which takes half a minute for a new design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiment import progress
from foundation.errors import HotlineError
from hotline_scripts.kv import launch
from hotline_simulator.faults import matrix
from hotline_simulator.faults.schedule import ARMS
from nativekit.notices import compiling
from switch_harness.wording import says, says_in_one_line
from tests.harness.cli import invoke

HEAD = "compiling what no earlier run has needed (once, up to a minute):\n"


@pytest.mark.parametrize(("min_shown_s", "lines"), [(0.0, "  the whole (0 s)\n  another (0 s)\n"), (1.0, "")])
def test_compilations_that_take_long_are_listed(
    min_shown_s: float, lines: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def simulate(*_: object, **__: object) -> None:
        with compiling("the whole"), compiling("a part"):
            pass
        with compiling("another"):
            pass
        raise HotlineError("it ends here")

    monkeypatch.setattr(progress, "_MIN_SHOWN_S", min_shown_s)
    monkeypatch.setattr("hotline_simulator.run.simulate", simulate)
    ended = invoke("simulate")
    assert (ended.exit_code, ended.stdout, ended.stderr) == (1, "", f"{HEAD}{lines}Error: it ends here\n")


def test_nothing_is_printed_if_all_code_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulate(*_: object, **__: object) -> None:
        raise HotlineError("it ends here")

    monkeypatch.setattr("hotline_simulator.run.simulate", simulate)
    assert says_in_one_line(invoke("simulate").stderr, "Error", "ends")


def test_hotline_up_compiles_in_the_users_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order: list[str] = []

    def start(*_: object) -> dict[str, str]:
        order.append("start")
        return {"error": "it ends here"}

    monkeypatch.setattr(launch, "_ask_status", lambda: None)
    monkeypatch.setattr(launch, "check", lambda config, kind: order.append("check"))
    monkeypatch.setattr(launch, "warm", order.append)
    monkeypatch.setattr(launch, "_start", start)
    (tmp_path / "up.toml").write_text(f'design = "none"\nruns = "{tmp_path}"\n')
    assert says(invoke("up", tmp_path / "up.toml").stderr, "Error", "ends")
    assert order == ["check", "none", "start"]


def test_faults_are_compiled_once_and_not_in_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def run_in_parallel(_work: object, tasks: list[Any], *_: object) -> list[Any]:
        order.append(f"{len(tasks)} tasks")
        return []

    monkeypatch.setattr(matrix, "warm_faults", lambda name, faults: order.append(name))
    monkeypatch.setattr(matrix, "run_in_parallel", run_in_parallel)
    rows = [("loss", arm) for arm in ARMS]
    matrix.play_rows(rows, 500, 1, None, 2, lambda done, total: None)
    designs = list(dict.fromkeys(ARMS[arm].design for arm in ARMS))
    assert order == [*designs, f"{2 * len(rows)} tasks"]
