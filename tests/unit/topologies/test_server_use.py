"""Costs of PS agents and switch in the record of a block."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from analysis.record import ProgramUse, ServerUse
from experiment.run_config import Config
from hotline_agents.ps.rpcs import JOB_COUNTERS
from tests.harness.arms import JOBS
from tests.harness.sessions import FakeNetwork, real_session
from topologies.agent_process import Message
from topologies.agents import Agent
from topologies.cpu_placement import Placement, program_use_of
from topologies.session import RealSession


class Server:
    """Answers `stats` as a PS process does."""

    def __init__(self, cpu_s: float, jobs: dict[int, dict[str, int]]) -> None:
        stored = {"commits": 3, "commit_ns": 45_000, "delayed": 7, "delay_ns": 140_000}
        jobs_of = {str(job): jobs[job] for job in jobs}
        read = {"bursts": 12, "waits": 4}
        self._answer = {"cpu_s": cpu_s, "jobs": jobs_of, "durability": stored, **read}

    async def call(self, command: dict[str, Any], *_: object) -> Message:
        assert command == {"cmd": "stats"}
        return self._answer


async def test_a_jobs_counters_are_added_up_over_servers_and_their_cpu_is_every_arms() -> None:
    of_job = {"packets": 10, "bytes": 1000, "proc_wall_ns": 300, "proc_cpu_ns": 200}

    def counters(factor: int) -> dict[int, dict[str, int]]:
        return {
            job: dict.fromkeys(JOB_COUNTERS, 7) | {name: n * job * factor for name, n in of_job.items()}
            for job in JOBS.values()
        }

    servers: Any = [Server(1.5, counters(1)), Server(0.25, counters(2))]
    session = real_session(servers=servers)
    use = await session.server_use()
    assert set(use) == set(JOBS)
    counted = {name: 3 * JOBS["offload"] * each for name, each in of_job.items()}
    totals = dict(bursts=24, waits=8, commits=6, commit_ns=90_000, delayed=14, delay_ns=280_000)
    assert use["offload"] == ServerUse.model_validate({"cpu_s": 1.75, **counted, **totals})


def session_with(counted: dict[str, Any] | None, datapath: str | None) -> RealSession:
    """Make a session of three workers and two servers, at ports 1 to 3 and 4 to 5; the CPU port is 255."""
    record: Any = SimpleNamespace(datapath=datapath)
    switch = SimpleNamespace(counters=AsyncMock(return_value=counted))
    network = FakeNetwork(switch, workers=3, servers=2)
    return real_session(Config(workers=3, servers=2), network=network, record=record)


NS = {1: 1_000_000, 2: 20_000_000, 3: 300_000_000, 4: 4_000_000_000, 5: 50_000_000_000, 255: 10**15}


NOTHING = dict.fromkeys(ProgramUse.model_fields, 0.0)


def counted_ports(**runs: list[int]) -> dict[str, dict[str, Any]]:
    """Return counters of ports with the program's times `NS`; `runs` has the frames by CPU."""
    of = dict.fromkeys(range(1, 4), runs["workers"]) | dict.fromkeys(range(4, 6), runs["servers"])
    return {
        str(port): {"program_ns": ns, "program_runs": of.get(port, [1, 1, 1, 1])} for port, ns in NS.items()
    }


async def test_without_placement_the_programs_time_is_the_senders() -> None:
    """The time of the CPU port is nowhere counted. The record has s, the counters ns."""
    counted = {"ports": counted_ports(workers=[7, 0, 3], servers=[5])}
    found = await session_with(counted, "kernel").program_use()
    assert found is not None
    assert found.model_dump() == pytest.approx({**NOTHING, "workers": 0.321, "servers": 54.0})
    for datapath in ("sockets", None):
        assert await session_with(counted, datapath).program_use() is None
    assert await session_with(None, "kernel").program_use() is None


@pytest.mark.parametrize(
    ("placement", "workers", "servers", "expected"),
    [
        # On its senders' cores.
        (Placement(servers=(0,), workers=(1,)), [0, 9], [9, 0], {"workers": 0.321, "servers": 54.0}),
        # Steered to the servers' core, to the workers', to a dedicated one, and by another program.
        (Placement(0, (0,), (1,)), [9, 0], [9, 0], {"on_servers": 0.321, "servers": 54.0}),
        (Placement(1, (0,), (1,)), [0, 9], [0, 9], {"workers": 0.321, "on_workers": 54.0}),
        (Placement(2, (0,), (1,)), [0, 0, 9], [0, 0, 9], {"apart": 54.321}),
        (Placement(None, (0,), (1,)), [0, 0, 9], [9, 0, 0], {"apart": 0.321, "servers": 54.0}),
        # A third of the workers' frames on their own core.
        (Placement(2, (0,), (1,)), [0, 1, 2], [0, 0, 9], {"workers": 0.107, "apart": 54.214}),
        # Frames of server 2, which is on CPU 3, on that of server 1; workers 2 is on CPU 2.
        (Placement(0, (0, 3), (1, 2)), [9], [9], {"on_servers": 50.321, "servers": 4.0}),
        (Placement(None, (0, 3), (1, 2)), [0, 0, 9], [9], {"workers": 0.02, "on_workers": 0.301,
                                                            "servers": 4.0, "on_servers": 50.0}),
    ],
)  # fmt: skip
def test_the_programs_time_is_attributed_by_the_cores_of_the_program(
    placement: Placement, workers: list[int], servers: list[int], expected: dict[str, float]
) -> None:
    found = program_use_of(counted_ports(workers=workers, servers=servers), 3, 2, placement)
    assert found.model_dump() == pytest.approx({**NOTHING, **expected})
    assert found.total == pytest.approx(54.321)


def test_a_port_without_a_frame_has_taken_nothing() -> None:
    ports = {str(port): {"program_ns": 0, "program_runs": [0, 0]} for port in range(1, 6)}
    assert program_use_of(ports, 3, 2, Placement()) == ProgramUse(workers=0.0, servers=0.0)


def test_restarts_are_counted_by_name() -> None:
    servers: Any = [SimpleNamespace(name=f"ps-{p}", restarts=p) for p in range(3)]
    for restarts, of_switch in ((0, {}), (2, {"s1": 2})):
        network = FakeNetwork(SimpleNamespace(name="s1", restarts=restarts))
        session = real_session(network=network, servers=servers)
        assert session.restarts() == {**of_switch, "ps-1": 1, "ps-2": 2}


async def test_the_peak_memory_of_processes_is_read() -> None:
    """A process that has ended has none; one that has freed 64 MB still has its peak."""
    script = "import sys; pages = b'x' * (64 << 20); del pages; print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        agents: Any = [Mock(spec=Agent, pid=pid) for pid in (child.pid, 2**22 + 1)]
        agents[0].name, agents[1].name = "ps-0", "ps-1"
        network = FakeNetwork(SimpleNamespace(name="s1", pid=None))
        found = await real_session(network=network, servers=agents).peak_memory_mb()
        child.stdin.close()
    assert found.keys() == {"ps-0", "ps-1"} and found["ps-1"] == 0
    assert 64 <= found["ps-0"] < 128
