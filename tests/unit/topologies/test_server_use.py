"""What the PS agents tell of their costs, as a block's record takes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from analysis.record import ServerUse
from hosts.ps.state import JOB_COUNTERS
from protocol.arms import JOBS
from topologies.agents import Answer
from topologies.config import Config
from topologies.session import Session


class Server:
    """Answers `stats` as a PS process does."""

    def __init__(self, cpu_s: float, jobs: dict[int, dict[str, int]]) -> None:
        self._answer = {"cpu_s": cpu_s, "jobs": {str(job): jobs[job] for job in jobs}}

    async def call(self, command: dict[str, Any], *_: object) -> Answer:
        assert command == {"cmd": "stats"}
        return self._answer


def test_a_jobs_counters_are_added_up_over_servers_and_their_cpu_is_every_arms() -> None:
    def counters(factor: int) -> dict[int, dict[str, int]]:
        return {
            job: {
                **dict.fromkeys(JOB_COUNTERS, 7),
                "packets": 10 * job * factor,
                "bytes": 1000 * job * factor,
                "proc_wall_ns": 300 * job * factor,
                "proc_cpu_ns": 200 * job * factor,
            }
            for job in JOBS.values()
        }

    servers: Any = [Server(1.5, counters(1)), Server(0.25, counters(2))]
    nothing: Any = None
    session = Session(Config(), Path(), nothing, [], servers, nothing, nothing)
    use = asyncio.run(session.server_use())
    assert set(use) == set(JOBS)
    assert use["hot"] == ServerUse(
        packets=30 * JOBS["hot"],
        bytes=3000 * JOBS["hot"],
        proc_wall_ns=900 * JOBS["hot"],
        proc_cpu_ns=600 * JOBS["hot"],
        cpu_s=1.75,
    )
