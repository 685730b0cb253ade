"""Simulate a dedicated switch after a run: which runs can be simulated, the process that does it, its end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.record import Accounting, RunRecord, read_record
from experiment.run_config import Config
from foundation.designs import hotset
from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness.records import a_block, a_record
from tests.harness.sessions import quiet
from topologies import lifecycle
from topologies.signals import STOP
from topologies.simulation import add_simulation, can_be_simulated


def record(rounds: int = 6, **changes: Any) -> RunRecord:
    config = changes.pop("config", {})
    blocks = [a_block(number, "offload") for number in range(rounds)]
    dumped = Config.model_validate(config).model_dump(mode="json")
    return a_record(config=dumped, blocks=blocks, **changes)


def test_a_default_run_can_be_simulated() -> None:
    assert can_be_simulated(record())


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 5},
        {"target": "bmv2"},
        {"error": "it was killed"},
        {"machines": {"alpha": {"cpus": 2}}},
        {"config": {"codec": "scapy"}},
        {"config": {"arms": ("baseline", "proxy")}},
        {"config": {"faults": {"loss": 0.01}}},
        {"config": {"recovery": {"journal_sync": "always"}}},
        {"config": {"server": {"ns_per_rpc": 100}}},
        {"config": {"empty_rpcs": 0}},
        {"config": {"simulate_dedicated_switch": False}},
    ],
    ids=str,
)
def test_a_run_without_a_model_cannot_be_simulated(changes: dict[str, Any]) -> None:
    assert not can_be_simulated(record(**changes))


def test_a_design_that_no_simulation_can_have_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = replace(hotset.DESIGN, switch_state="hotline_simulator.switch_state:NO_STATE_OPS")
    monkeypatch.setattr(hotset, "DESIGN", lacking)
    assert not can_be_simulated(record())


def module(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / "predictor.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return "predictor"


def test_the_process_gets_the_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory of the run does not matter."""
    text = "import sys, hotline_simulator, pathlib; pathlib.Path(sys.argv[1], 'asked').touch()"
    name = module(tmp_path, text, monkeypatch)
    monkeypatch.chdir("/")
    assert add_simulation(tmp_path, str, name)
    assert (tmp_path / "asked").exists()
    assert not add_simulation(tmp_path, str, module(tmp_path, "raise SystemExit(1)", monkeypatch))


def test_a_signal_stops_the_simulation_after_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import sys, pathlib, threading; pathlib.Path(sys.argv[1], 'asked').touch()"
    text += "; threading.Event().wait()"
    name = module(tmp_path, text, monkeypatch)
    with ThreadPoolExecutor() as pool:
        asking = pool.submit(add_simulation, tmp_path, str, name)
        wait_for(lambda: (tmp_path / "asked").exists())
        cancel = STOP._actions.cancel
        assert cancel is not None
        cancel()
        assert asking.result(PATIENCE_S) is False


def test_a_run_is_simulated_before_its_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Accounting(sent=1, applied=1, lost=0, unknown=0, mismatched_keys=0, overflows=0)
    reported: list[RunRecord] = []

    def add(run: Path, describe: Callable[[], str], module: str) -> bool:
        found = read_record(run)
        found.memory_mb["added"] = 1.0
        found.write(run)
        assert describe().startswith(str(run)) and not reported and module == "a.predictor"
        return True

    monkeypatch.setattr(lifecycle, "add_simulation", add)
    monkeypatch.setattr(lifecycle, "summarise", lambda run, found: reported.append(found))
    monkeypatch.setattr(lifecycle, "write_report", lambda run, found, summary: run / "report.html")
    monkeypatch.setattr(lifecycle, "print_result", lambda found, summary, report: None)
    for rounds, expected in ((6, {"added": 1.0}), (5, {})):
        record(rounds, accounting=account).write(tmp_path)
        reported.clear()
        lifecycle._write_report(tmp_path, quiet(), "a.predictor")
        assert [found.memory_mb for found in reported] == [expected]
