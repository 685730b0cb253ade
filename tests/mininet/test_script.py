"""A script as the workers of a run: from SCRIPT= to the report, and what happens when it fails."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from switch_harness.wording import says
from tests.mininet.run_topo import Traces, finished_run, record_of, run_topo, summary_of

pytestmark = pytest.mark.mininet

ROWS, DIM = 600, 4
# 20 lines, of which each rank has data of its own; `{more}` is what a test has it do in a step.
TRAIN = f"""
import os
import numpy as np
import hotline

with hotline.Worker(tables={{"rows": ({ROWS}, {DIM})}}) as kv:
    random = np.random.default_rng([kv.seed, kv.rank])
    kv.init(random.normal(0, 0.1, ({ROWS}, {DIM})).astype(np.float32))
    kv.barrier()
    popular = 1 / np.arange(1, {ROWS} + 1)
    for step in range(STEPS):
        keys = random.choice({ROWS}, 100, replace=False, p=popular / popular.sum())
        rows = np.empty((100, {DIM}), np.float32)
        kv.wait(kv.pull(keys, rows))
        wrong = rows - 1
        kv.push(keys, -0.2 * wrong)
        if step % 10 == 9:
            kv.report(loss=float((wrong**2).mean()))
        MORE
    kv.barrier()
"""
SMALL: dict[str, object] = {
    "workers": 2, "top_k": 300, "rounds": 2, "block_ms": 300, "discard_ms": 50, "block_steps": 40,
    "profile_lanes": 20_000, "calibration_s": 0.2, "arms": ["baseline", "offload"],
}  # fmt: skip


def script(folder: Path, *changes: tuple[str, str], steps: int = 1_000_000, more: str = "pass") -> str:
    """Write the script, with other texts in place of some; return its path."""
    text = TRAIN.replace("STEPS", str(steps)).replace("MORE", more)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "train.py"
    file.write_text(text)
    return str(file)


@pytest.mark.parametrize(
    ("workers", "topology"), [(2, "leaf-spine"), pytest.param(1, "switch", marks=pytest.mark.soak)]
)
def test_a_script_trains_in_each_arm_and_the_report_says_how(
    tmp_path: Path, workers: int, topology: str
) -> None:
    run = finished_run(
        tmp_path, f"TOPOLOGY={topology}", small=SMALL, script=script(tmp_path), workers=workers
    )
    record, summary = record_of(run.folder), summary_of(run.folder)
    assert record["accounting"]["lost"] == record["accounting"]["mismatched_keys"] == 0
    assert record["accounting"]["sent"] == record["accounting"]["applied"] > 10_000
    assert record["workload"]["name"] == "train.py" and record["workload"]["parameters"] == ROWS
    assert (
        record["workload"]["dims"] == summary["dims"] == [DIM] and record["workload"]["lanes_per_step"] == 100
    )
    assert record["ended_by"] == "rounds" and summary["loads"]["closed loop"]["offered_rate"] is None
    # A third of the parameters take most of the updates, and the switch serves these.
    assert summary["hot_update_share"] > 0.3
    for arm in ("baseline", "offload"):
        steps = sum(block["steps"] for block in record["blocks"] if block["arm"] == arm)
        assert steps >= 2 * 40 and summary["steps_per_s"][arm] > 1
        assert 0 < summary["last_reported"][arm] < 1  # it was 1 at the beginning
    assert summary["reports"] >= 2 and "ratio" in summary["learning"]["offload"]
    started = {file.name for file in (run.folder / "logs").glob("script-*-1.log")}
    assert started == {f"script-{arm}-1.log" for arm in ("profile", "baseline", "offload")}
    reports = [json.loads(line) for line in (run.folder / "reports.jsonl").read_text().splitlines()]
    last = workers - 1
    reporting = {(each["arm"], each["rank"]) for each in reports}
    assert reporting >= {("offload", 0), ("offload", last), ("baseline", last)}
    page = (run.folder / "report.html").read_text()
    for what in ("train.py", "closed loop", "Loss that the script reports"):
        assert what in page, what
    assert "scripts: " in run.errors  # the phase in which they join
    assert Traces.look() == Traces(frozenset(), frozenset())


@pytest.mark.soak
@pytest.mark.parametrize("closes", [True, False])
def test_a_run_ends_when_its_script_has_ended_in_all_arms(tmp_path: Path, closes: bool) -> None:
    small = {name: value for name, value in SMALL.items() if name != "rounds"}
    changes = () if closes else (("with hotline", "if kv := hotline"), (") as kv:", "):"))
    file = script(tmp_path, *changes, steps=300)
    run = finished_run(tmp_path, small=small, budget_s=60.0, script=file)
    record, summary = record_of(run.folder), summary_of(run.folder)
    assert record["ended_by"] == "script" and record["accounting"]["lost"] == 0
    assert summary["reports"] == 30  # of every worker, in every arm


@pytest.mark.soak
def test_a_script_that_raises_in_one_worker_ends_the_run_and_gives_the_reason(tmp_path: Path) -> None:
    raises = 'assert step < 30 or kv.rank == 0 or kv.arm != "offload", "no such column: price"'
    before = Traces.look()
    run = finished_run(tmp_path, code=1, small=SMALL, script=script(tmp_path, more=raises))
    reported = run.errors[run.errors.index("hotline: script") :]
    assert "worker 2 (rank 1) in arm offload" in reported and "status 1" in reported
    assert "AssertionError: no such column: price" in reported
    assert "script-offload-2.log" in reported
    accounting = record_of(run.folder)["accounting"]
    assert accounting["lost"] == 0 and accounting["sent"] > 0
    assert Traces.look() == before


@pytest.mark.soak
def test_ctrl_c_ends_scripts_that_wait(tmp_path: Path) -> None:
    before = Traces.look()
    with run_topo(tmp_path, small=SMALL, script=script(tmp_path)) as run:
        run.wait_for_parts("operations-worker-1-job-*.parquet")
        os.killpg(run.process.pid, signal.SIGINT)
        begun = time.monotonic()
        assert run.wait() == 130
    assert time.monotonic() - begun < 30  # three seconds on a quiet machine
    assert record_of(run.folder)["error"] == "interrupted"
    assert Traces.look() == before


@pytest.mark.soak
def test_a_script_that_ends_at_once_gets_an_error_that_asks_for_more_steps(tmp_path: Path) -> None:
    run = finished_run(tmp_path, code=1, small=SMALL, script=script(tmp_path, steps=5))
    assert says(run.errors, "script", "baseline")


@pytest.mark.soak
def test_a_script_that_only_pulls_gets_an_error_that_defines_a_step(tmp_path: Path) -> None:
    changes = ("kv.push(keys, -0.2 * wrong)", "pass"), ("kv.init", "print")
    file = script(tmp_path, *changes, steps=300)
    run = finished_run(tmp_path, code=1, small=SMALL, script=file)
    assert "without a push" in run.errors and "Traceback" not in run.errors


@pytest.mark.soak
def test_a_script_that_makes_no_worker_gets_an_error(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("print('nothing to do')\n")
    run = finished_run(tmp_path, code=1, small=SMALL, script=str(file))
    assert "hotline.Worker" in run.errors and "nothing to do" in run.errors
