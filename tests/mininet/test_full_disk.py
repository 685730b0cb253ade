"""A full disk: a PS with a journal waits until there is room, and a run ends in order and names the disk."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hosts.workload.generator import R1, generate
from switch_harness.waiting import wait_for
from tests.harness.agents import Agent
from tests.mininet.run_topo import run_topo, small_disk
from tests.unit.test_agent_processes import SIZE, held, ps_config, worker_config

pytestmark = pytest.mark.mininet
JOB = 2


@pytest.mark.soak
def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    shape = replace(R1, parameters=SIZE, hot=100, keys_per_step=150)
    generate(shape, workers=1, steps=60, seed=1).save(tmp_path / "trace")
    with small_disk(tmp_path / "disk", "8m") as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(7_800 * 1024))
        reported = tmp_path / "reported"
        with reported.open("w") as errors:
            configs = [ps_config(logs, ps, durable={"file": str(disk / f"{ps}.db")}) for ps in range(2)]
            servers = [Agent("hosts.ps", config, logs, errors) for config in configs]
            worker = Agent("hosts.worker", worker_config(logs), logs)
            try:
                worker.send(cmd="run", job=JOB, first_step=0, steps=60, start_ns=0, period_ns=0)
                wait_for(lambda: "nothing is answered" in reported.read_text())
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
        assert reported.read_text().count("nothing is answered") <= len(servers) * 3


@pytest.mark.soak
def test_a_run_whose_disk_fills_names_it_and_keeps_its_logs(tmp_path: Path) -> None:
    with small_disk(tmp_path / "runs", "600m") as disk:
        with run_topo(tmp_path, rounds=100) as run:
            run.wait_for_parts("operations-worker-1-*.parquet")
            with (disk / "filler").open("wb") as filler, suppress(OSError):
                while filler.write(bytes(1 << 16)):
                    pass
            assert run.wait() == 1
        assert f"No space left on device: the disk of {disk} (600 MB) is full" in run.errors
        assert "Traceback" not in run.errors and "did not quit" not in run.errors
        folder = run.folder
        assert list(folder.glob("**/operations*.parquet")) and not (folder / "trace").exists()
