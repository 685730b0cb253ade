"""Workers and servers of Scapy as processes on loopback addresses, also beside compiled ones."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.logs.columns import METRICS
from foundation.protocol.rows import RowRange, RowRanges
from hosts.keys import KeySpace
from hosts.ledger import read as read_ledger
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace
from tests.harness import agents
from tests.harness.agents import Agent, refusal
from tests.harness.ground_floor import make_ground_floor

SIZE = 3000
JOBS = {1: "baseline", 2: "proxy"}
NET = f"127.{os.getpid() % 250 + 1}"
MS = 1_000_000
COMPILED_WORKER, COMPILED_SERVER = "hotline_agents.worker", "hotline_agents.ps"
TABLE = {"first": 0, "scale": 1.0, "optimiser": None}
WORKER, SERVER = "hosts.scapy.worker_process", "hosts.scapy.server_process"


def make_trace() -> Trace:
    return generate(replace(R1, parameters=SIZE, hot=100, keys_per_step=150), workers=1, steps=10, seed=1)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    make_trace().save(tmp_path / "trace")
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


def server_config(log_dir: Path, ps: int, **changes: object) -> dict[str, object]:
    connected = {job: arm == "baseline" for job, arm in JOBS.items()}
    changes = {"n_ps": 2, "parameters": SIZE, **changes}
    return agents.ps_config(log_dir, ps, f"{NET}.2.{ps + 1}", connected, **changes)


def worker_config(log_dir: Path, **changes: object) -> dict[str, object]:
    services = [f"{NET}.2.{ps + 1}" for ps in range(2)]
    changes = {"learning_rate": 0.5, "trace": str(log_dir.parent / "trace"), **changes}
    return agents.worker_config(log_dir, f"{NET}.1.1", services, JOBS, **changes)


def values_after_training(
    log_dir: Path,
    worker_module: str,
    server_modules: tuple[str, str],
    steps: int,
    dim: int = 1,
    python: Path | None = None,
) -> dict[str, object]:
    """Train in a closed loop on the trace's rows; return what the agents say and hold.

    Rows of one dim may have padding behind `dim` values. `python` runs the agents.
    """
    space = Trace.load(log_dir.parent / "trace").space
    of_rows = {"row_ranges": [list(each) for each in space.ranges]}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                closing(Agent(module, server_config(log_dir, ps, **of_rows), log_dir, python=python))
            )
            for ps, module in enumerate(server_modules)
        ]
        settings = worker_config(log_dir, dim=dim)
        worker = stack.enter_context(closing(Agent(worker_module, settings, log_dir, python=python)))
        answer = worker.call(cmd="run", job=1, first_step=0, steps=steps, round=2)
        assert answer["ok"] and answer["malformed"] == 0 and answer["steps"] == steps
        assert worker.call(cmd="empty", job=1, count=4)["ok"]
        values = np.zeros(space.n_values, np.uint32)
        for ps, server in enumerate(servers):
            file = log_dir / f"dump-{ps}.npz"
            assert server.call(cmd="dump", file=str(file)) == {"ok": True}
            with np.load(file) as dump:
                values[space.value_places(dump["job1_keys"].astype(np.int64))] += dump["job1_sums"]
        stats = [server.call(cmd="stats")["jobs"]["1"] for server in servers]
        assert [server.call(cmd="flush") for server in servers] == [{"ok": True, "dropped_rows": 0}] * 2
    return {
        "values": values.tolist(), "loss": answer["loss"], "updates": answer["updates_sent"],
        "applied": sum(each["applied_lanes"] for each in stats), "rpcs": sum(each["rpcs"] for each in stats),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("worker", "servers"),
    [
        (WORKER, (SERVER, COMPILED_SERVER)),
        pytest.param(WORKER, (SERVER, SERVER), marks=pytest.mark.soak),
        pytest.param(COMPILED_WORKER, (COMPILED_SERVER, SERVER), marks=pytest.mark.soak),
    ],
)
def test_agents_of_scapy_train_the_same_model(log_dir: Path, worker: str, servers: tuple[str, str]) -> None:
    """One worker in a closed loop computes the same numbers whoever its servers are."""
    found = values_after_training(log_dir, worker, servers, steps=5)
    expected = values_after_training(log_dir, COMPILED_WORKER, (COMPILED_SERVER,) * 2, steps=5)
    assert found == expected
    assert found["updates"] == found["applied"]


@pytest.mark.parametrize(
    ("ranges", "dim"),
    [
        ((RowRange(0, 1), RowRange(700, 16), RowRange(1500, 64), RowRange(2500, 4)), 1),
        pytest.param((RowRange(0, 16),), 10, marks=pytest.mark.soak),
        pytest.param((RowRange(0, 128),), 128, marks=pytest.mark.soak),
    ],
)
def test_agents_of_scapy_train_rows(log_dir: Path, ranges: RowRanges, dim: int) -> None:
    replace(make_trace(), space=KeySpace(SIZE, None, ranges)).save(log_dir.parent / "trace")
    found = values_after_training(log_dir, WORKER, (SERVER, COMPILED_SERVER), steps=4, dim=dim)
    [ledger] = log_dir.glob("ledger-worker-1-job-1-*.bin")
    sent = read_ledger(ledger).sent
    assert found["values"] == sent.tolist() and sent.any()
    expected = values_after_training(log_dir, COMPILED_WORKER, (COMPILED_SERVER,) * 2, steps=4, dim=dim)
    assert found == expected


def test_agents_of_scapy_train_the_same_model_without_numba(log_dir: Path, tmp_path: Path) -> None:
    python = make_ground_floor(tmp_path / "environment")
    found = values_after_training(log_dir, WORKER, (SERVER, SERVER), steps=5, python=python)
    assert found == values_after_training(log_dir, COMPILED_WORKER, (COMPILED_SERVER,) * 2, steps=5)


def test_agents_of_scapy_write_logs_of_rpcs_operations_and_updates(log_dir: Path) -> None:
    values_after_training(log_dir, WORKER, (SERVER, SERVER), steps=4)
    rpcs = pl.read_parquet(log_dir / "rpc-worker-1-*.parquet")
    operations = pl.read_parquet(log_dir / "operations-worker-1-*.parquet")
    assert dict(operations.group_by(pl.col("op").cast(pl.String)).len().rows()) == {
        "pull": 4, "push": 4, "step": 4,
    }  # fmt: skip
    of_steps = rpcs.filter(pl.col("op").cast(pl.String) != "empty")
    assert operations.filter(pl.col("op").cast(pl.String) == "step")["rpcs"].sum() == of_steps.height
    assert rpcs.height == of_steps.height + 4
    metrics = [f"{name}_us" for name in METRICS]
    difference = rpcs.select((pl.sum_horizontal(metrics) - pl.col("latency_us")).abs().max())
    assert difference.item() < 1 and rpcs.select(pl.min_horizontal(metrics).min()).item() >= 0
    assert rpcs.filter(pl.col("round") == 2)["measured"].all()
    connections = pl.read_parquet(log_dir / "connections-ps-*.parquet")
    assert rpcs.height <= connections.height <= rpcs["attempts"].cast(pl.Int64).sum()
    updates = pl.read_parquet(log_dir / "updates-ps-*.parquet")
    assert updates["updates"].sum() == of_steps.filter(pl.col("op").cast(pl.String) == "push")["lanes"].sum()


@pytest.mark.parametrize("module", [WORKER, SERVER])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"design": "collect"}, "design collect: agents of Scapy speak"),
        ({"recovery": {"replay_log": True}}, "recovery: servers of Scapy keep no journal"),
        ({"window": 65}, "window: Input should be less than or equal to 64"),
    ],
)
def test_an_agent_of_scapy_refuses_settings_that_need_compiled_agents(
    log_dir: Path, module: str, changes: dict[str, object], reason: str
) -> None:
    config = worker_config(log_dir, **changes) if module == WORKER else server_config(log_dir, 0, **changes)
    assert reason in refusal(module, config, log_dir)


@pytest.mark.parametrize(
    ("module", "changes", "reason"),
    [
        (WORKER, {"learning_rate": None}, "optimiser: servers of Scapy add"),
        (SERVER, {"tables": [TABLE]}, "optimiser: servers of Scapy add"),
        (SERVER, {"durable": {"file": "x.db"}}, "recovery: servers of Scapy keep no journal"),
        (WORKER, {"number": 2}, "expected at least 2 workers, got 1"),
        (WORKER, {"n_ps": 3}, "services: expected PS 0 to 2, got PS [0, 1]"),
    ],
)
def test_settings_that_workers_or_servers_of_scapy_cannot_have_are_refused(
    log_dir: Path, module: str, changes: dict[str, object], reason: str
) -> None:
    config = worker_config(log_dir, **changes) if module == WORKER else server_config(log_dir, 0, **changes)
    assert reason in refusal(module, config, log_dir)
