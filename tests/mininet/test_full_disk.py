"""A full disk: a PS with a journal waits until there is room, and a run ends in order and names the disk."""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.errors import DataError, DiskFullError
from foundation.logs.parts import atomic_path
from hosts.workload.generator import R1, generate
from packages.agents.tests.unit.test_agent_processes import SIZE, held, ps_config, worker_config
from switch_harness.waiting import wait_for
from switch_harness.wording import says
from tests.harness.agents import Agent
from tests.harness.cli import invoke
from tests.harness.crashed_run import CrashedRunFolder
from tests.mininet.run_topo import record_of, run_topo, small_disk
from tests.mininet.test_kills import RECOVERY, SERVERS

pytestmark = pytest.mark.mininet
JOB = 2
FULL_S = 15.0
WAITING = "waiting until there is disk space"
PAUSED = "no request is answered until there is disk space"


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
            servers = [Agent("hotline_agents.ps", config, logs, errors) for config in configs]
            worker = Agent("hotline_agents.worker", worker_config(logs), logs)
            try:
                worker.send(cmd="run", job=JOB, first_step=0, steps=60, start_ns=0, period_ns=0)
                wait_for(lambda: PAUSED in reported.read_text())
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
        assert reported.read_text().count(PAUSED) <= len(servers) * 3


def test_a_log_table_that_lacks_room_on_the_disk_is_one_error(tmp_path: Path) -> None:
    """Polars' error depends on where in the file the room ends, and does not always name the reason."""
    random = np.random.default_rng(1)
    with small_disk(tmp_path / "disk", "1m") as disk:
        table, filler = disk / "table.parquet", disk / "filler"
        for rows in (10, 300, 4_000):
            frame = pl.DataFrame({"a": random.random(rows), "b": random.random(rows)})
            for pages in range(20):
                filler.write_bytes(bytes((254 - pages) * 4_096))
                with suppress(DiskFullError), atomic_path(table) as partial:
                    frame.write_parquet(partial)
                assert {file.name for file in disk.iterdir()} <= {"filler", "table.parquet"}
                table.unlink(missing_ok=True)
                filler.unlink()

        def write_in_vain() -> None:
            with atomic_path(table):
                raise pl.exceptions.ComputeError("parquet: File out of specification: transport error")

        with pytest.raises(DataError) as failed:
            write_in_vain()
        assert not isinstance(failed.value, DiskFullError)
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 12)):
                pass
        with pytest.raises(DiskFullError, match=str(table)):
            write_in_vain()
        assert [file.name for file in disk.iterdir()] == ["filler"]


def test_agents_whose_logs_fill_the_disk_wait_until_there_is_room(tmp_path: Path) -> None:
    shape = replace(R1, parameters=SIZE, hot=100, keys_per_step=150)
    generate(shape, workers=1, steps=60, seed=1).save(tmp_path / "trace")
    with small_disk(tmp_path / "disk", "8m") as disk:
        stderr = {name: tmp_path / f"{name}.err" for name in ("ps", "worker")}
        with stderr["ps"].open("w") as ps_errors, stderr["worker"].open("w") as worker_errors:
            servers = [Agent("hotline_agents.ps", ps_config(disk, ps), disk, ps_errors) for ps in range(2)]
            config = worker_config(disk) | {"trace": str(tmp_path / "trace")}
            worker = Agent("hotline_agents.worker", config, disk, worker_errors)
            try:
                with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                    while filler.write(bytes(1 << 12)):
                        pass
                worker.send(cmd="run", job=JOB, first_step=0, steps=60, start_ns=0, period_ns=0)
                wait_for(lambda: WAITING in stderr["worker"].read_text())
                # A server that waits answers nothing, so the worker's steps must be done.
                servers[0].send(cmd="flush")
                servers[1].send(cmd="dump", file=str(disk / "dump.npz"))
                wait_for(lambda: stderr["ps"].read_text().count(WAITING) == 2)
                assert not list(disk.glob("*.parquet"))
                (disk / "filler").unlink()
                with worker.limited():
                    while "progress" in (answer := worker.read()):
                        pass
                assert answer["ok"] and answer["steps"] == 60
                assert servers[0].read()["ok"] and servers[1].read()["ok"]
            finally:
                assert [agent.close() for agent in (worker, *servers)] == [0, 0, 0]
        logs = {file.name.partition("-")[0]: pl.read_parquet(file).height for file in disk.glob("*.parquet")}
        assert logs["operations"] >= 60 and logs["rpc"] > 60 and logs["updates"] > 0
        assert {"connections", "operations", "rpc", "updates"} == set(logs) and (disk / "dump.npz").exists()


def test_a_recovery_without_room_changes_nothing(tmp_path: Path) -> None:
    """Leave room for nothing, for a part of the copy, and for all of it, but not for what is added to it."""
    with small_disk(tmp_path / "disk", "16m") as disk:
        run = CrashedRunFolder(disk / "run")
        # What replays journals may be compiled first, which says so.
        other = CrashedRunFolder(tmp_path / "run")
        assert invoke("recover", other.folder, "--apply").exit_code == 0
        before, n_bytes = run.held().tolist(), sum(file.stat().st_size for file in run.files.iterdir())
        failures = 0
        for free in range(0, 2 * n_bytes, max(n_bytes // 5, 1)):
            (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - free))
            ran = invoke("recover", disk / "run", "--apply")
            (disk / "filler").unlink()
            if ran.exit_code == 0:
                break
            assert ran.exit_code == 1 and ran.output.count("\n") == 1 and len(ran.output) < 300, ran.output
            assert "full" in ran.output or "No space left" in ran.output
            assert run.held().tolist() == before
            failures += 1
        assert failures >= 4
        assert invoke("recover", disk / "run", "--apply").exit_code == 0
        assert run.held().tolist() == run.pushed.tolist()


@pytest.mark.soak
def test_a_run_whose_disk_is_full_for_a_while_goes_on_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "runs", "600m") as disk:
        with run_topo(tmp_path, rounds=10, tables=RECOVERY, arms=["baseline", "offload"]) as run:
            run.wait_for_parts("operations-worker-1-*.parquet")
            filler = disk / "filler"
            with filler.open("wb") as file, suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            parts = next(disk.glob("*/parts"))
            written = len(list(parts.glob("*.parquet")))
            # Longer than the timeout of a controller's command to a server.
            deadline = time.monotonic() + FULL_S
            run.wait_for(lambda: time.monotonic() > deadline)
            assert len(list(parts.glob("*.parquet"))) <= written + 2 * SERVERS
            filler.unlink()
            assert run.wait() == 0, run.errors
        assert says(run.errors, "waits", "room") and "there is room again" in run.errors
        accounting = record_of(run.folder)["accounting"]
        assert accounting["sent"] > 0
        assert (accounting["lost"], accounting["unknown"], accounting["mismatched_keys"]) == (0, 0, 0)


@pytest.mark.soak
def test_a_run_whose_disk_fills_names_the_disk_and_keeps_its_logs(tmp_path: Path) -> None:
    with small_disk(tmp_path / "runs", "600m") as disk:
        with run_topo(tmp_path, rounds=100) as run:
            run.wait_for_parts("operations-worker-1-*.parquet")
            with (disk / "filler").open("wb") as filler, suppress(OSError):
                while filler.write(bytes(1 << 16)):
                    pass
            deadline = time.monotonic() + FULL_S
            run.wait_for(lambda: time.monotonic() > deadline)
            os.killpg(run.process.pid, signal.SIGINT)
            assert run.wait() == 130
        assert f"the disk of {disk}" in run.errors and says(run.errors, "full", "waits")
        assert "Traceback" not in run.errors and "did not quit" not in run.errors
        folder = run.folder
        assert list(folder.glob("**/operations*.parquet")) and not (folder / "trace").exists()
