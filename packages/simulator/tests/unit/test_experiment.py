"""A simulated run writes the same files as a real one, and its report says that it was simulated."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import Result

from analysis.record import Accounting, read_record
from analysis.summary import read_summary
from foundation.logs.check import check
from foundation.logs.columns import LOGS
from hotline_simulator import experiment
from hotline_simulator.accounting import account
from hotline_simulator.drive import pass_time
from hotline_simulator.ledger import WorkerLedger
from hotline_simulator.session import SimulatedSession
from switch_harness.wording import says
from tests.harness.arms import MEASURED as ARMS
from tests.harness.cli import invoke, json_of
from tests.harness.summaries import terminal

SMALL = """
workers = 3
servers = 2
top_k = 400
rounds = 6
loads = [0.5]
block_ms = 2
discard_ms = 1
block_steps = 6
trace_steps = 200
calibration_s = 0.005
profile_lanes = 20000
runs = "{runs}"

[workload]
parameters = 20000
hot_parameters = 400
hot_share = 0.5
keys_per_step = 200

[network]
rate_mbit = 1000

[hosts]
serve_ns = 4000
"""


def simulate(folder: Path, *options: str, before: str = "", after: str = "") -> Result:
    """Simulate a small run, whose configuration has further lines."""
    config = folder / "run.toml"
    config.write_text(before + SMALL.format(runs=folder / "runs") + after)
    return invoke("simulate", config, *options)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("simulated")
    return folder, simulate(folder)


def test_a_simulated_run_leaves_a_whole_run_folder(done: tuple[Path, Result]) -> None:
    folder, result = done
    assert result.exit_code == 0, result.output
    run = folder / "runs" / "latest"
    for log, schema in LOGS.items():
        assert pl.read_parquet_schema(run / f"{log}.parquet") == schema
    rows = check(run)
    assert min(rows.values()) > 0 and not (run / "parts").exists()
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    assert set(summary["arms"]) == set(ARMS)
    updates = summary["updates"]
    assert (updates["lost"], updates["mismatched_keys"], summary["overflows"]) == (0, 0, 0)
    assert updates["sent"] == updates["applied"] > 20_000
    assert 0.3 < summary["hot_update_share"] < 0.7
    assert summary["rpcs"] == rows["rpc.parquet"] and summary["real_s"] > summary["loop_s"] > 0.001
    # Nothing is sent again: an RPC passes the switch once where that answers it, and else twice.
    answered = pl.read_parquet(run / "rpc.parquet")["class"].cast(pl.String) == "all_hit"
    assert 0 < answered.sum() == 2 * summary["rpcs"] - summary["packet_passes"]
    # It ends with the last operation.
    ended = pl.read_parquet(run / "operations.parquet")["end_us"].max()
    assert summary["virtual_s"] * 1e6 == pytest.approx(ended, abs=1)
    assert "report: " in result.output
    page = (run / "report.html").read_text()
    assert f"Run {run.resolve().name}, simulated</p>" in page
    assert "the same P4 program and agents, with given costs and cables" in page
    # Progress has real and virtual time: those of a phase, and where it has ended.
    (measured,) = re.findall(
        r"^measure: [\d.]+ s, at ([\d.]+) s of simulated time$", result.stderr, re.MULTILINE
    )
    assert float(measured) == pytest.approx(summary["virtual_s"], abs=0.001)
    facts = " ".join(terminal(read_summary(run)).split())
    speed = f"{summary['packet_passes'] / summary['loop_s']:,.0f} passes a second of the event loop"
    assert speed in facts
    assert f"Simulated: {summary['rpcs']:,} RPCs, {summary['packet_passes']:,} passes" in facts


def test_a_simulated_run_prints_the_table_of_a_run(done: tuple[Path, Result]) -> None:
    folder, result = done
    lines = [line for line in result.stdout.splitlines() if str(folder) not in line]
    assert max(map(len, lines)) <= 80 and len(lines) < 25
    assert any(re.match(r"packets to servers +-\d+ \[-\d+, -\d+\]", line) for line in lines)


def test_the_report_has_no_machine_and_no_arm_that_was_not_run(done: tuple[Path, Result]) -> None:
    folder, result = done
    run = folder / "runs" / "latest"
    assert not re.search(r"\bCPUs\b|\brepeat\b", result.output)
    assert json.loads((run / "summary.json").read_text())["cpus"] is None
    reported = re.sub(r"<script.*?</script>", "", (run / "report.html").read_text(), flags=re.DOTALL)
    assert not re.search(r"on \d+ CPU|\d+ CPUs?:|machine&#39;s CPUs|arm repeat\b|<th[^>]*>repeat", reported)


def test_the_capacity_of_an_arm_with_collections_is_of_a_loop_with_collections(tmp_path: Path) -> None:
    """A closed loop of a hundred steps is over before a value is 15 ms old, so nothing would be collected."""

    def capacities(staleness_ms: int) -> dict[str, float]:
        collection = f"[collection]\nstaleness_ms = {staleness_ms}\nshare_of_server = 1.0\n"
        settings = 'design = "collect"\noptimiser = "adagrad(lr=0.1)"\n'
        folder = tmp_path / f"{staleness_ms}"
        folder.mkdir()
        done = simulate(folder, before=settings, after=collection)
        assert done.exit_code == 0, done.output
        found: dict[str, float] = read_record(folder / "runs" / "latest").capacity
        return found

    tight, loose = capacities(15), capacities(400)
    steps_s = loose["collect-baseline"]
    assert tight["collect-baseline"] == steps_s and 100 / steps_s < 0.015
    assert tight["collect"] < 0.97 * loose["collect"]


@pytest.mark.soak
def test_rounds_go_on_until_precise_and_no_longer_than_the_budget(tmp_path: Path) -> None:
    """An interval needs six rounds. In the budget an RPC counts as 10 µs, on any machine."""

    def ended(setting: str, network: str = "") -> tuple[str, int]:
        text = SMALL.format(runs=tmp_path / "runs").replace("rounds = 6", setting)
        config = tmp_path / "run.toml"
        config.write_text(text.replace("[network]", f"[network]\n{network}"))
        summary = json_of("simulate", config)
        return summary["ended_by"], summary["loads"]["0.5"]["rounds"]

    end, rounds = ended("")
    assert end == "precision" and rounds >= 6
    # A lost frame is sent again after 20 ms, which makes a pull ten times as long.
    assert ended("budget_s = 0.000_01", "loss = 0.001") == ("budget", 6)
    end, rounds = ended("budget_s = 0.5", "loss = 0.001")
    assert end == "budget" and rounds > 6


def test_the_same_configuration_leaves_the_same_logs(done: tuple[Path, Result], tmp_path: Path) -> None:
    result = simulate(tmp_path, "--json")
    assert result.exit_code == 0
    assert result.stdout == (tmp_path / "runs" / "latest" / "summary.json").read_text()
    for log in LOGS:
        own, other = (folder / "runs" / "latest" / f"{log}.parquet" for folder in (tmp_path, done[0]))
        assert own.read_bytes() == other.read_bytes(), log


def test_wrong_sums_are_reported_and_the_report_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker's ledger counts one update of parameter 7 too many in each push."""
    close = WorkerLedger.close

    def wrong(ledger: WorkerLedger) -> None:
        close(ledger)
        ledger._ledger.sums[7] += np.uint32(1)

    monkeypatch.setattr(WorkerLedger, "close", wrong)
    result = simulate(tmp_path)
    assert result.exit_code == 1
    # In each of the four arms, and in the profile's.
    run = (tmp_path / "runs" / "latest").resolve()
    assert says(" ".join(result.output.split()), 5, run)
    summary = json.loads((run / "summary.json").read_text())
    assert summary["updates"]["mismatched_keys"] == 5 and (run / "report.html").exists()


def test_more_hosts_than_a_switch_has_ports_are_refused(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    for text, message in (
        (
            "workers = 450\nservers = 60\n",
            "workers (450) and servers (60) need 510 ports; a switch has 509: ",
        ),
        (
            "workers = 900\nservers = 125\n[network]\nrack = 10\n",
            "workers (900) and servers (125): expected at most 1024 together, the routes of a switch",
        ),
    ):
        config.write_text(text)
        result = invoke("simulate", config)
        assert result.exit_code == 1
        assert message in result.output and result.output.count("\n") == 1


def test_an_error_of_a_simulation_is_one_line(tmp_path: Path) -> None:
    result = simulate(tmp_path, after="rate = 3\n")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1 and "hosts.rate" in result.output
    assert not (tmp_path / "runs").exists()


def record_of(folder: Path, settings: str, design: str = "none") -> Any:
    folder.mkdir()
    assert simulate(folder, before=f'design = "{design}"\n{settings}\n').exit_code == 0
    return json.loads((folder / "runs" / "latest" / "run.json").read_text())


def test_servers_that_optimise_get_all_gradients_and_train_like_servers_that_add(tmp_path: Path) -> None:
    added = record_of(tmp_path / "add", "learning_rate = 0.5")
    for text in ("sgd(lr=0.5)", "adagrad"):
        record = record_of(tmp_path / text, f'optimiser = "{text}"')
        accounting, workload = record["accounting"], record["workload"]
        assert accounting["sent"] == accounting["applied"] > 0
        assert accounting["mismatched_keys"] == accounting["lost"] == 0
        assert workload["optimiser"].startswith(text) and workload["scale"] == 2**24
        losses, expected = ([block["loss"] for block in each["blocks"]] for each in (record, added))
        assert (losses == pytest.approx(expected, abs=1e-4)) == (text == "sgd(lr=0.5)")


def test_servers_collect_for_an_arm_only_in_its_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an arm's CPU time would depend on how long the others' blocks are."""
    idle_ns, active_ns = [], []

    def accounted(session: SimulatedSession) -> Accounting:
        network = session.arms["collect"].network

        def costs_of(ns: int) -> int:
            before = network.server_used_ns()
            pass_time(network, network.now + ns)
            return network.server_used_ns() - before

        costs_of(100_000_000)  # what was under way ends
        idle_ns.append(costs_of(1_000_000_000))
        network.publish()
        active_ns.append(costs_of(1_000_000_000))
        return account(session)

    monkeypatch.setattr(experiment, "account", accounted)
    record = record_of(tmp_path / "run", 'optimiser = "adagrad"', design="collect")
    assert record["accounting"]["mismatched_keys"] == record["accounting"]["lost"] == 0
    assert idle_ns == [0]
    # Nobody reads copies meanwhile, so their ages do not count the second without collections.
    assert record["staleness"]["collect"]["oldest_ms"] < 500
    # 400 keys are read by 2 servers each 43.75 ms, up to 32 by an RPC of some 10 microseconds.
    assert active_ns[0] > 1_000_000
