"""A PS whose disk is full answers nothing until there is room, and has lost nothing then."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hosts.workload.generator import R1, generate
from switch_harness.waiting import wait_for
from tests.unit.test_agent_processes import SIZE, Agent, held, ps_config, worker_config

pytestmark = pytest.mark.mininet
JOB = 2


@pytest.mark.soak
def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    disk, logs = tmp_path / "disk", tmp_path / "logs"
    disk.mkdir()
    logs.mkdir()
    shape = replace(R1, parameters=SIZE, hot=100, keys_per_step=150)
    generate(shape, workers=1, steps=60, seed=1).save(tmp_path / "trace")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(disk)], check=True)
    try:
        filler = disk / "filler"
        filler.write_bytes(bytes(7_800 * 1024))
        told = tmp_path / "told"
        with told.open("w") as errors:
            configs = [ps_config(logs, ps, durable={"file": str(disk / f"{ps}.db")}) for ps in range(2)]
            servers = [Agent("hosts.ps", config, logs, errors) for config in configs]
            worker = Agent("hosts.worker", worker_config(logs), logs)
            try:
                worker.send(cmd="run", job=JOB, first_step=0, steps=60, start_ns=0, period_ns=0)
                wait_for(lambda: "nothing is answered" in told.read_text())
                # Commands are heard all the while.
                assert all(server.call(cmd="stats")["ok"] for server in servers)
                filler.unlink()
                with worker.limited():
                    while "progress" in (answer := worker.read()):
                        pass
                assert answer["ok"] and answer["steps"] == 60
                assert worker.call(cmd="ledger", file=str(logs / "ledger.npz")) == {"ok": True}
                values = held(servers, logs, JOB)
                with np.load(logs / "ledger.npz") as books:
                    sent = np.zeros(SIZE, np.uint32)
                    sent[books[f"job{JOB}_keys"].astype(np.int64)] = books[f"job{JOB}_sent"]
                assert sent.any() and (values == sent).all()
            finally:
                assert [agent.close() for agent in (worker, *servers)] == [0, 0, 0]
        assert told.read_text().count("nothing is answered") <= len(servers) * 3
    finally:
        subprocess.run(["umount", str(disk)], check=True)
