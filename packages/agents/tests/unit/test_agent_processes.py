"""Worker and PS as processes on loopback addresses, without a switch."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from foundation.concurrency import in_thread
from foundation.logs.collector import UpdateLogCollector, run_collector
from foundation.protocol import codec
from foundation.protocol.header import VERSION
from hosts import ledger
from hosts.agent import load_config
from hosts.agent_config import AgentConfigError
from hosts.keys import KeySpace
from hosts.ps_config import PsConfig
from hosts.sockets import open_udp
from hosts.workload.generator import R1, generate
from hotline_agents.worker.logs import ROWS
from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import mentions, says
from tests.harness import agents
from tests.harness.agents import Agent, refusal

JOBS = {1: "baseline", 2: "proxy"}
SIZE = 3000
OPERATIONS = ("pull", "push", "step")
NET = f"127.{os.getpid() % 250 + 1}"
MS = 1_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    shape = replace(R1, parameters=SIZE, hot=100, keys_per_step=150)
    generate(shape, workers=1, steps=30, seed=1).save(tmp_path / "trace")
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.fixture
def servers(log_dir: Path) -> Iterator[list[Agent]]:
    agents = [Agent("hotline_agents.ps", ps_config(log_dir, ps), log_dir) for ps in range(2)]
    try:
        yield agents
    finally:
        assert [agent.close() for agent in agents] == [0, 0]


def ps_config(log_dir: Path, ps: int, **changes: object) -> dict[str, object]:
    connected = {job: arm == "baseline" for job, arm in JOBS.items()}
    return agents.ps_config(log_dir, ps, f"{NET}.2.{ps + 1}", connected, n_ps=2, parameters=SIZE, **changes)


def worker_config(log_dir: Path, **changes: object) -> dict[str, object]:
    services = [f"{NET}.2.{ps + 1}" for ps in range(2)]
    changes = {"learning_rate": 0.5, "trace": str(log_dir.parent / "trace"), **changes}
    return agents.worker_config(log_dir, f"{NET}.1.1", services, JOBS, **changes)


@pytest.fixture
def worker(log_dir: Path, servers: list[Agent]) -> Iterator[Agent]:
    with closing(Agent("hotline_agents.worker", worker_config(log_dir), log_dir)) as agent:
        yield agent


def held(servers: list[Agent], directory: Path, job: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    values = np.zeros(SIZE, dtype=np.uint32)
    for n, server in enumerate(servers):
        file = directory / f"dump-{n}.npz"
        assert server.call(cmd="dump", file=str(file)) == {"ok": True}
        with np.load(file) as dump:
            values[KeySpace(SIZE).positions(dump[f"job{job}_keys"])] += dump[f"job{job}_sums"]
    return values


def assert_sent(worker: Agent, servers: list[Agent], log_dir: Path, *jobs: int) -> None:
    """Check that the servers hold the sums of the worker's ledger, and that no lane is unknown."""
    file = log_dir / "ledger.npz"
    assert worker.call(cmd="ledger", file=str(file)) == {"ok": True}
    with np.load(file) as ledger:
        for job in jobs:
            sent = np.zeros(SIZE, np.uint32)
            sent[ledger[f"job{job}_keys"].astype(np.int64)] = ledger[f"job{job}_sent"]
            assert sent.any() and (held(servers, log_dir, job) == sent).all()
            assert not ledger[f"job{job}_unknown"].any()


@pytest.mark.soak
def test_a_run_is_logged_and_accounted_for(worker: Agent, servers: list[Agent], log_dir: Path) -> None:
    assert [agent.first for agent in (worker, *servers)] == [{"ready": True}] * 3
    for job in JOBS:
        answer = worker.call(
            cmd="run", job=job, first_step=0, steps=10, start_ns=0, period_ns=10 * MS, round=3, load=0.5,
            discard_ns=20 * MS,
        )  # fmt: skip
        assert answer["ok"] and answer["steps"] == 10
        assert 0.6 < answer["loss"] < 0.75 and answer["malformed"] == 0
        # A busy machine is late with answers, which come twice then.
        assert answer["unexpected"] <= answer["retransmissions"]
    answer = worker.call(
        cmd="run", job=1, first_step=10, steps=10, start_ns=0, period_ns=0, discard_ns=10**15, discard_steps=7
    )
    assert answer["ok"] and answer["max_lateness_ns"] == 0
    assert worker.call(cmd="empty", job=1, count=10)["ok"]
    assert_sent(worker, servers, log_dir, *JOBS)

    rpcs = pl.read_parquet(log_dir / "rpc-worker-1-*.parquet")
    operations = pl.read_parquet(log_dir / "operations-worker-1-*.parquet")
    lengths = dict(operations.group_by(pl.col("op").cast(pl.String)).len().rows())
    assert lengths == dict.fromkeys(OPERATIONS, 30)
    assert rpcs["op"].cast(pl.String).unique().sort().to_list() == ["empty", "pull", "push"]
    empty = rpcs.filter(pl.col("op").cast(pl.String) == "empty")
    assert empty.select("round", "load").unique().rows() == [(0, 0.0)]
    assert rpcs["class"].cast(pl.String).unique().to_list() == ["cold"]
    parts = ["w_proc_us", "w_queue_us", "ps_proc_us", "ps_queue_us", "n_tx_us"]
    off = (rpcs.select(pl.sum_horizontal(parts)).to_series() - rpcs["latency_us"]).abs()
    assert off.max() < 1.0  # type: ignore[operator]  # a float; polars types Series.max more widely
    assert (rpcs.select(pl.min_horizontal(parts)).to_series() >= 0).mean() > 0.95  # type: ignore[operator]  # same
    paced = operations.filter(pl.col("round") == 3)
    assert paced["measured"].sum() == 2 * 3 * 8
    # Ended long before its discarded time, so that its last steps count all the same.
    sooner = operations.filter((pl.col("round") == 0) & (pl.col("iteration") >= 10))
    assert sooner.filter("measured")["iteration"].unique().sort().to_list() == [17, 18, 19]
    steps = operations.filter(pl.col("op").cast(pl.String) == "step")
    assert steps["rpcs"].sum() == rpcs.filter(pl.col("op").cast(pl.String) != "empty").height

    stats = [server.call(cmd="stats") for server in servers]
    assert sum(each["jobs"][str(job)]["rpcs"] for each in stats for job in JOBS) == rpcs.height
    assert all(each["jobs"]["1"]["proc_cpu_ns"] > 0 and each["malformed"] == 0 for each in stats)
    assert all(set(each["durability"].values()) == {0} for each in stats)
    requests = sum(each["jobs"][str(job)]["packets"] for each in stats for job in JOBS)
    assert 0 < sum(each["bursts"] for each in stats) <= requests and all(each["waits"] > 0 for each in stats)
    assert [server.call(cmd="flush") for server in servers] == [{"ok": True, "dropped_rows": 0}] * 2
    contacts = pl.read_parquet(log_dir / "connections-ps-*.parquet")
    # A request that is sent again, since the machine was busy, makes contact again.
    assert rpcs.height <= contacts.height <= rpcs["attempts"].cast(pl.Int64).sum()
    assert contacts["worker"].unique().to_list() == [1]
    updates = pl.read_parquet(log_dir / "updates-ps-*.parquet")
    applied = [each["jobs"][str(job)]["applied_lanes"] for each in stats for job in JOBS]
    assert updates["updates"].sum() == sum(applied)


@pytest.mark.soak
@pytest.mark.parametrize("job", [1, 2])
def test_a_durable_server_that_is_killed_loses_nothing(log_dir: Path, job: int) -> None:
    def start(ps: int) -> Agent:
        durable = {"file": str(log_dir / f"ps-{ps}.db"), "checkpoint_mb": 0.05}
        return Agent("hotline_agents.ps", ps_config(log_dir, ps, durable=durable), log_dir)

    def answered(server: Agent) -> int:
        return int(server.call(cmd="stats")["jobs"][str(job)]["rpcs"])

    servers = [start(ps) for ps in range(2)]
    worker = Agent("hotline_agents.worker", worker_config(log_dir), log_dir)
    recovered = []
    try:
        for victim in (0, 1, 0):
            before = answered(servers[victim])
            worker.send(cmd="run", job=job, first_step=0, steps=30, start_ns=0, period_ns=20 * MS)
            while answered(servers[victim]) < before + 10:
                pass
            servers[victim].process.kill()
            servers[victim].close()
            servers[victim] = start(victim)
            recovered.append(servers[victim].first["recovered"])
            with worker.limited():
                while "progress" in (answer := worker.read()):
                    pass
            assert answer["steps"] == 30
        assert max(recovered) > 0
        # Each burst waits for one commit; pulls among them wait, too.
        stored = servers[1].call(cmd="stats")["durability"]
        assert 0 < stored["commits"] <= stored["delayed"] and 0 < stored["commit_ns"] < stored["delay_ns"]
        assert_sent(worker, servers, log_dir, job)
    finally:
        assert [agent.close() for agent in (worker, *servers)] == [0, 0, 0]


@pytest.mark.soak
def test_every_ps_sends_its_statistics_to_the_log_collector(log_dir: Path) -> None:
    async def run() -> tuple[UpdateLogCollector, int]:
        async with run_collector(log_dir, log_dir / "collector") as collector:
            return collector, await in_thread(train)

    def train() -> int:
        addressed = [ps_config(log_dir, ps, collector=str(log_dir / "collector")) for ps in range(2)]
        servers = [Agent("hotline_agents.ps", config, log_dir) for config in addressed]
        worker = Agent("hotline_agents.worker", worker_config(log_dir), log_dir)
        sent: int = worker.call(cmd="run", job=1, first_step=0, steps=10)["updates_sent"]
        assert servers[0].call(cmd="flush")["ok"]
        assert [agent.close() for agent in (worker, *servers)] == [0, 0, 0]
        return sent

    collector, sent = asyncio.run(run())
    assert (collector.servers, collector.updates) == (2, sent)
    files = sorted(file.name for file in log_dir.glob("updates-*"))
    assert files == ["updates-ps-0-0.parquet", "updates-ps-1-0.parquet"]
    assert pl.read_parquet(log_dir / "updates-*.parquet")["updates"].sum() == sent


@pytest.mark.soak
def test_full_logs_are_written_while_a_block_runs(worker: Agent, servers: list[Agent], log_dir: Path) -> None:
    calls = ROWS + 1
    assert worker.call(cmd="empty", job=1, count=calls)["ok"]
    assert [server.call(cmd="flush") for server in servers] == [{"ok": True, "dropped_rows": 0}] * 2
    assert pl.read_parquet(log_dir / "rpc-worker-1-*.parquet").height == calls
    assert pl.read_parquet(log_dir / "connections-ps-*.parquet").height >= calls


@pytest.mark.soak
def test_a_worker_with_the_scapy_codec_sends_and_logs_all_updates(
    servers: list[Agent], log_dir: Path
) -> None:
    with closing(Agent("hotline_agents.worker", worker_config(log_dir, codec="scapy"), log_dir)) as agent:
        answer = agent.call(cmd="run", job=1, first_step=0, steps=3)
        assert answer["ok"] and answer["malformed"] == 0
        assert_sent(agent, servers, log_dir, 1)
    rpcs = pl.read_parquet(log_dir / "rpc-worker-1-*.parquet")
    operations = pl.read_parquet(log_dir / "operations-worker-1-*.parquet")
    assert operations.filter(pl.col("op").cast(pl.String) == "step")["rpcs"].sum() == rpcs.height > 0


@pytest.mark.soak
def test_a_server_has_a_socket_for_each_worker_only_without_the_proxy(
    worker: Agent, servers: list[Agent]
) -> None:
    def sockets(agent: Agent) -> int:
        fds = Path(f"/proc/{agent.process.pid}/fd")
        return sum(os.readlink(fd).startswith("socket:") for fd in fds.iterdir())

    counts = []
    for job in (2, 1):
        assert worker.call(cmd="run", job=job, first_step=0, steps=3)["ok"]
        counts.append([sockets(server) for server in servers])
    assert counts == [[2, 2], [3, 3]]


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_worker_handles_the_loss_of_the_switch_before_its_blocks_end(log_dir: Path, blocks: int) -> None:
    with closing(open_udp((f"{NET}.2.9", 0))) as server:
        server.settimeout(PATIENCE_S)
        address, port = server.getsockname()
        services = [{"ps": 0, "address": address, "port": port}]
        config = worker_config(log_dir, n_ps=1, services=services)
        run: dict[str, object] = {"cmd": "run", "job": 1, "first_step": 0, "steps": 3}
        with closing(Agent("hotline_agents.worker", config, log_dir)) as worker:
            worker.send_together(
                *[run] * blocks, {"cmd": "renew", "epochs": {"1": 7}, "switch": 1, "home": 0}
            )
            assert codec.parse(server.recv(2048)).header.epoch == 7


def test_the_ledger_tells_the_sent_and_unknown_updates_of_a_killed_worker(
    worker: Agent, servers: list[Agent], log_dir: Path
) -> None:
    assert worker.call(cmd="run", job=1, first_step=0, steps=5)["ok"]
    worker.send(cmd="run", job=1, first_step=5, steps=100_000)
    assert "progress" in worker.read()
    worker.process.send_signal(signal.SIGKILL)
    worker.process.wait()
    sums = ledger.read(log_dir / "ledger-worker-1-job-1-epoch-1.bin")
    assert sums.lanes_sent > 0
    rest = held(servers, log_dir, 1) - sums.sent
    assert ((rest == 0) | (rest == sums.unknown)).all()
    assert pl.read_parquet(log_dir / "rpc-worker-1-*.parquet").height


@pytest.mark.soak
def test_the_end_of_input_ends_a_run_and_keeps_its_log(worker: Agent, log_dir: Path) -> None:
    worker.send(cmd="run", job=1, first_step=0, steps=100_000, period_ns=10 * MS)
    assert "progress" in worker.read()
    assert worker.close() == 0
    assert pl.read_parquet(log_dir / "rpc-worker-1-0.parquet").height > 0


def test_wrong_commands_are_answered_with_an_error(
    worker: Agent, servers: list[Agent], log_dir: Path
) -> None:
    assert says(worker.call(cmd="dance")["error"], "commands")
    assert says(worker.call(cmd="hint", job=9, file=None)["error"], 1, 2, 9)
    assert says(worker.call(cmd="hint", job=1, file="none")["error"], "none", "read")
    assert says(servers[0].call(cmd="stats", of="x")["error"], "stats", "unexpected")
    pl.DataFrame({"key": [1, 2, 3]}).write_parquet(log_dir / "hot.parquet")
    assert worker.call(cmd="hint", job=1, file=str(log_dir / "hot.parquet")) == {"ok": True, "keys": 3}
    assert worker.call(cmd="hint", job=1, file=None) == {"ok": True, "keys": 0}
    assert worker.call(cmd="quit") == {"ok": True}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 65}, "window: Input should be less than or equal to 64"),
        ({"colour": 1}, "colour: Extra inputs are not permitted"),
        ({"trace": "none"}, "none: cannot be read as a trace"),
        ({"number": 2}, "trace: expected at least 2 workers, got 1"),
        ({"n_ps": 3}, "services: expected PS 0 to 2, got PS [0, 1]"),
        ({"homes": [[0, 1]]}, "switches: expected 2, one for each home, got 1"),
        (
            {"wire": 1},
            f"wire: Value error, the run speaks version 1 of the wire and this agent version {VERSION}; "
            "start both from the same version of Hotline",
        ),
    ],
)
def test_a_worker_refuses_a_wrong_configuration(
    log_dir: Path, changes: dict[str, object], message: str
) -> None:
    assert message in refusal("hotline_agents.worker", worker_config(log_dir, **changes), log_dir)


def test_a_server_with_a_wrong_configuration_reports_the_error(log_dir: Path) -> None:
    agent = Agent("hotline_agents.ps", ps_config(log_dir, 0, colour=1), log_dir)
    assert agent.close() == 1
    assert says(agent.first["error"], "colour", "permitted")


def test_a_server_configuration_without_a_version_of_the_wire_is_refused(log_dir: Path) -> None:
    config = ps_config(log_dir, 0)
    del config["wire"]
    (path := log_dir / "ps.json").write_text(json.dumps(config))
    with pytest.raises(AgentConfigError, match=mentions("version 1", VERSION)):
        load_config(path, PsConfig)
