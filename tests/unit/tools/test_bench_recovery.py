"""`tools.bench.recovery` on made-up runs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.report import write_report
from analysis.summary import summarise
from experiment.run_config import load_config
from tests.unit.analysis.synthetic import make_run
from tools.bench import recovery
from tools.bench.recovery import ARMS, SETTINGS, WITHOUT, Change, changes, figures, main

FACTORS = {
    WITHOUT: 1.0,
    "repeat": 1.0,
    "journal_sync = never": 1.5,
    "journal_sync = always": 2.0,
    "replay_log": 0.9,
}


def of_pass(factors: Mapping[str, float], figure: float) -> dict[str, dict[tuple[str, str], float]]:
    return {setting: {("push, p50", "baseline"): figure * factors[setting]} for setting in SETTINGS}


def test_a_change_is_the_geometric_mean_of_the_passes_ratios() -> None:
    made = [of_pass(FACTORS, 100.0), of_pass({**FACTORS, "repeat": 1.21}, 300.0), of_pass(FACTORS, 50.0)]
    found = {setting: of["push, p50", "baseline"] for setting, of in changes(made).items()}
    assert found["journal_sync = never"] == pytest.approx((0.5, 0.5, 0.5))
    assert found["journal_sync = always"] == pytest.approx((1.0, 1.0, 1.0))
    # Student's t with two degrees of freedom is 4.303 at 97.5 %; logs 0, 0, ln 1.21.
    mean, deviation = math.log(1.21) / 3, math.log(1.21) / math.sqrt(3)
    half = 4.302653 * deviation / math.sqrt(3)
    wanted = tuple(math.exp(each) - 1 for each in (mean, mean - half, mean + half))
    assert found["repeat"] == pytest.approx(wanted, rel=1e-5)


def test_the_figures_of_a_run_are_read_from_its_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.figures", lambda sources, progress: [])
    made = make_run(tmp_path / "run")
    made.record.blocks = [block for block in made.record.blocks if block.load == 0.5]
    made.record.memory_mb = {"s1": 900.0, "ps-0": 50.0, "ps-1": 60.0, "worker-1": 80.0, "worker-2": 70.0}
    made.record.write(made.folder)
    summary = summarise(made.folder, made.record)
    write_report(made.folder, made.record, summary)
    found = figures(made.folder)
    for arm in ARMS:
        of = summary.loads["0.5"].arms[arm]
        blocks = [block for block in made.record.blocks if block.arm == arm]
        assert found["push, p50", arm] == of.op_latency_us["push"].p50
        assert found["pull, p50", arm] == of.op_latency_us["pull"].p50
        # Of a block 0.25 and 0.5 s.
        assert found["PS CPU a step", arm] == pytest.approx(250_000 / blocks[0].steps)
        assert found["worker CPU a step", arm] == pytest.approx(500_000 / blocks[0].steps)
    assert (found["memory of a PS", ""], found["memory of a worker", ""]) == (60, 80)
    assert len(found) == 2 * 4 + 2


def test_each_pass_runs_all_settings_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Mapping[str, object]] = []

    def make(number: int, settings: Mapping[str, object], folder: Path, with_seeds: bool) -> Iterator[Path]:
        asked.append(settings)
        assert (number, with_seeds) == (1, False)
        file = tmp_path / "run.toml"
        file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()))
        config = load_config([f"CONFIG={file}"])
        assert (config.rate, config.loads, [arm.name for arm in config.measured_arms]) == (
            75,
            (1.0,),
            list(ARMS),
        )
        yield Path(f"{config.recovery.journal_sync} {config.recovery.replay_log}")

    def of(run: Path) -> dict[tuple[str, str], float]:
        by_run = {"None False": 1.0, "never False": 1.5, "always False": 2.0, "None True": 0.9}
        return {("push, p50", "offload-proxy"): 1000 * by_run[str(run)], ("memory of a PS", ""): 64.0}

    monkeypatch.setattr(recovery, "make_runs", make)
    monkeypatch.setattr(recovery, "figures", of)
    options = ["--passes", "3", "--rate", "75", "--folder", str(tmp_path)]
    ran = CliRunner().invoke(main, [*options, "--json"], catch_exceptions=False)
    push, memory = json.loads(ran.stdout)
    assert (push["figure"], push["arm"], push[WITHOUT]) == ("push, p50", "offload-proxy", 1000)
    assert Change(**push["journal_sync = never"]) == pytest.approx((0.5, 0.5, 0.5))
    assert Change(**push["replay_log"]) == pytest.approx((-0.1, -0.1, -0.1))
    assert (memory["figure"], memory["arm"], memory[WITHOUT]) == ("memory of a PS", "", 64)
    seeds = [settings["seed"] for settings in asked]
    assert seeds == [1] * 5 + [2] * 5 + [3] * 5
    orders = {tuple(str(sorted(settings.items())) for settings in asked[at : at + 5]) for at in (0, 5, 10)}
    assert len(orders) == 3 and ran.stderr.count("pass ") == 3

    reported = CliRunner().invoke(main, options, catch_exceptions=False).stdout
    assert all(
        each in reported for each in ("push, p50, offload-proxy", "+100% [+100%, +100%]", "-10% [-10%, -10%]")
    )
