"""A worker's process is killed in a push, and another process with its rank ends the push."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest

from hosts import ledger
from hosts.ledger import Sums
from tests.harness.agents import Agent
from tests.unit.scapy_agents.test_processes import (
    COMPILED_SERVER,
    COMPILED_WORKER,
    JOBS,
    SIZE,
    WORKER,
    log_dir,
    server_config,
    worker_config,
)

__all__ = ["log_dir"]  # a fixture
MAX_LIVES = 30


def config_of_life(log_dir: Path, life: int) -> dict[str, object]:
    """Return the configuration of a worker before which `life` workers had its rank."""
    jobs = [
        {
            "job": job, "arm": arm, "epoch": 1 + life, "udp_port": 20_000 + job,
            "previous_epochs": list(range(1, 1 + life)),
        }
        for job, arm in JOBS.items()
    ]  # fmt: skip
    return worker_config(log_dir, jobs=jobs, has_successors=True)


def sums_of_life(log_dir: Path, life: int) -> Sums:
    return ledger.read(log_dir / f"ledger-worker-1-job-1-epoch-{1 + life}.bin")


@pytest.mark.parametrize("module", [COMPILED_WORKER, pytest.param(WORKER, marks=pytest.mark.soak)])
def test_each_row_of_a_push_in_which_a_worker_is_killed_is_added_once(log_dir: Path, module: str) -> None:
    """Stopped servers execute the requests after the death. Workers are killed until one has a push open."""
    with ExitStack() as stack:
        servers = [
            stack.enter_context(closing(Agent(COMPILED_SERVER, server_config(log_dir, ps), log_dir)))
            for ps in range(2)
        ]
        for life in range(MAX_LIVES):
            worker = stack.enter_context(closing(Agent(module, config_of_life(log_dir, life), log_dir)))
            assert worker.call(cmd="resume") == {"ok": True, "rows": 0}
            worker.send(cmd="run", job=1, first_step=0, steps=1_000_000)
            assert "progress" in worker.read()
            for server in servers:
                os.kill(server.process.pid, signal.SIGSTOP)
            worker.process.send_signal(signal.SIGKILL)
            worker.process.wait()
            for server in servers:
                os.kill(server.process.pid, signal.SIGCONT)
            if sums_of_life(log_dir, life).lanes_unknown:
                break
        successor = stack.enter_context(closing(Agent(module, config_of_life(log_dir, life + 1), log_dir)))
        assert successor.call(cmd="resume")["ok"]
        assert successor.call(cmd="run", job=1, first_step=0, steps=2)["steps"] == 2
        sums = [sums_of_life(log_dir, each) for each in range(life + 2)]
        assert [each.lanes_unknown for each in sums] == [0] * len(sums)
        values = np.zeros(SIZE, np.uint32)
        for ps, server in enumerate(servers):
            assert server.call(cmd="dump", file=str(log_dir / f"dump-{ps}.npz"))["ok"]
            with np.load(log_dir / f"dump-{ps}.npz") as dump:
                values[dump["job1_keys"].astype(np.int64)] += dump["job1_sums"]
        assert (values == sum(each.sent for each in sums)).all() and values.any()
