"""What a session asks of workers, and when it repeats its work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import polars as pl
import pytest

from analysis.record import Contention
from controller.controller_ops import control_of
from controller.errors import DeviceError
from experiment import liveness
from experiment.errors import AgentFailed
from experiment.run_config import Config
from experiment.session import MachineCounters, PlannedBlock
from foundation.designs.arms import arm, arms_of
from foundation.designs.registry import design, known_names
from foundation.logs.columns import OPERATIONS
from foundation.protocol.control import Command
from switch_harness.wording import mentions
from tests.harness.sessions import real_session
from tests.unit.analysis.synthetic import block
from topologies.running_cluster import measure_empty_rpcs
from topologies.session import RealSession


class LoggingWorker:
    """A worker that writes its logs before it answers `flush`."""

    def __init__(self, parts: Path) -> None:
        self._parts = parts
        self.unwritten: dict[str, list[int]] = {}
        """Part file -> due times of its operations in µs."""

    async def call(self, command: dict[str, Any], *_: object) -> dict[str, Any]:
        assert command == {"cmd": "flush"}
        for name, times in self.unwritten.items():
            text = {"arm": "offload", "op": "pull", "measured": True}
            rows = [{column: 0 for column in OPERATIONS} | text | {"scheduled_us": at} for at in times]
            pl.DataFrame(rows, schema=OPERATIONS).write_parquet(self._parts / name)
        self.unwritten = {}
        return {}


async def test_operations_are_read_once_and_operations_of_repeated_blocks_are_not_measured(
    tmp_path: Path,
) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    worker = LoggingWorker(parts)
    session = real_session(run=tmp_path, workers=[worker])
    assert (await session.new_operations()).is_empty()
    worker.unwritten = {"operations-worker-1-0.parquet": [10, 20], "rpc-worker-1-0.parquet": [1]}
    assert (await session.new_operations())["scheduled_us"].to_list() == [10, 20]
    repeated = block(0, 0.5, "offload").model_copy(update={"begun_us": 25, "ended_us": 35})
    session.record.repeated_blocks.append(repeated)
    worker.unwritten = {"operations-worker-1-1.parquet": [30, 40], "operations-worker-2-0.parquet": [50]}
    found = (await session.new_operations()).sort("scheduled_us")
    assert found.select("scheduled_us", "measured").rows() == [(30, False), (40, True), (50, True)]
    assert (await session.new_operations()).is_empty()


async def test_work_is_repeated_until_no_process_has_died() -> None:
    made, attempts = real_session(), []

    async def work() -> int:
        attempts.append(made.liveness.all_up)
        if len(attempts) == 1:  # it would wait for ever
            made.liveness.mark_down("s1")
            asyncio.get_running_loop().call_later(0.01, made.liveness.mark_up, "s1")
            await asyncio.Event().wait()
        if len(attempts) == 2:
            asyncio.get_running_loop().call_later(0.01, made.liveness.mark_down, "ps-0")
            asyncio.get_running_loop().call_later(0.02, made.liveness.mark_up, "ps-0")
            raise DeviceError("the switch has closed the connection")
        if len(attempts) == 3:  # it ends well, but beside a death
            made.liveness.mark_down("ps-1")
            made.liveness.mark_up("ps-1")
            await asyncio.sleep(0)
        return len(attempts)

    assert await asyncio.wait_for(made.retry_after_deaths(work), 30) == 4
    assert attempts == [True] * 4


async def test_a_failure_that_no_death_explains_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_DETECTION_TIMEOUT_S", 0.01)

    work = AsyncMock(side_effect=DeviceError("the switch refused it"))
    with pytest.raises(DeviceError, match="refused"):
        await real_session().retry_after_deaths(work)


class CommandLog:
    """A worker that answers at once, and records commands and their time limits in s."""

    name = "worker-1"

    def __init__(self) -> None:
        self.commands: list[dict[str, Any]] = []
        self.timeout_s: list[float] = []

    async def call(self, command: Any, timeout_s: float, on_progress: object = None) -> dict[str, Any]:
        self.commands.append(command)
        self.timeout_s.append(timeout_s)
        return {"steps": command.get("steps", 0), "max_lateness_ns": 0, "cpu_s": 0.0, "loss": None}


@pytest.mark.parametrize(
    ("settings", "period_ns", "seconds"),
    [
        ({}, 0, 60 + 8),
        ({"codec": "scapy"}, 0, 60 + 8 * 60),
        ({}, 500_000_000, 60 + 8 * 5),
        ({"codec": "scapy"}, 500_000_000, 60 + 8 * 5),
        ({"faults": {"loss": 0.01}}, 0, 4 * 68),
    ],
)
async def test_a_call_for_steps_has_a_time_limit_by_their_number(
    settings: dict[str, Any], period_ns: int, seconds: float
) -> None:
    worker = CommandLog()
    session = real_session(Config.model_validate(settings), workers=[worker])
    await session.run_steps(PlannedBlock(arm("baseline"), 0, 8, period_ns))
    assert worker.timeout_s == [seconds]


async def test_a_worker_that_does_not_answer_is_reported_with_the_rate_of_the_switch() -> None:
    class Silent(CommandLog):
        async def call(self, command: Any, timeout_s: float, on_progress: object = None) -> dict[str, Any]:
            raise AgentFailed("worker-1 did not answer")

    with pytest.raises(AgentFailed, match=mentions("worker-1", "0 frames/s")):
        await real_session(workers=[Silent()]).run_steps(PlannedBlock(arm("baseline"), 0, 8))


async def test_a_block_gets_its_discarded_time_and_steps() -> None:
    worker = CommandLog()
    session = real_session(Config(discard_ms=30), workers=[worker])
    await session.run_steps(PlannedBlock(arm("baseline"), first_step=100, steps=8, max_discarded_steps=2))
    expected = {"first_step": 100, "steps": 8, "discard_ns": 30_000_000, "discard_steps": 2}
    assert {name: worker.commands[0][name] for name in expected} == expected


async def test_empty_rpcs_have_time_by_their_number() -> None:
    worker = CommandLog()
    session = real_session(Config(codec="scapy", empty_rpcs=10_000), workers=[worker])
    await measure_empty_rpcs(session)
    assert worker.timeout_s == [1030]


async def test_cpu_time_taken_from_empty_rpcs_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two CPUs' 2,000 ms 5 % are the bound for other programs."""
    session = real_session(Config(), workers=[CommandLog()])
    readings = [
        MachineCounters(at_ms=5_000.0, steal_ms=10.0, others_cpu_ms=70.0, pressure_ms=1.0),
        MachineCounters(at_ms=6_000.0, steal_ms=11.0, others_cpu_ms=171.0, pressure_ms=4.0),
    ]
    monkeypatch.setattr(session.network, "read_contention", AsyncMock(side_effect=readings))
    await measure_empty_rpcs(session)
    assert session.record.empty_rpcs_contention == Contention(
        duration_ms=1_000, steal_ms=1, others_cpu_ms=101, pressure_ms=3, disturbed=["others' CPU"]
    )


async def test_servers_collect_only_for_the_active_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[int, Command]] = []

    async def command_servers(job: int, command: Command, *_: int) -> None:
        commands.append((job, command))

    controller = SimpleNamespace(command_servers=command_servers)
    monkeypatch.setattr(RealSession, "controller", lambda _: nullcontext(controller))
    session = real_session(Config.model_validate({"design": "collect", "optimiser": "adagrad"}))
    baseline, collect = arm("collect-baseline"), arm("collect")
    async with session.active(baseline):
        assert commands == []
    async with session.active(collect):
        assert commands == [(collect.job, Command.PUBLISH)]
    assert commands == [(collect.job, Command.PUBLISH), (collect.job, Command.HOLD)]


class CountingSession(RealSession):
    """A session that counts the controllers' commands to servers instead of sending them."""

    commands: list[Command]

    @asynccontextmanager
    async def controller(self, *_: object) -> AsyncIterator[Any]:
        self.commands = [*getattr(self, "commands", []), Command.PUBLISH]

        async def command_servers(_job: int, command: Command, *_: object) -> None:
            self.commands[-1] = command

        yield SimpleNamespace(command_servers=command_servers)


@pytest.mark.parametrize("name", known_names())
async def test_only_operations_that_a_design_has_open_connections(name: str) -> None:
    ops = control_of(design(name))
    assert all(getattr(ops, each) is None or callable(getattr(ops, each)) for each in ops._fields)
    session = real_session(Config.model_construct(design=name), of=CountingSession)
    for each in arms_of(name):
        async with session.active(each):
            pass
    aggregating = sum(each.settings.aggregates for each in arms_of(name))
    has_exchanges = ops.publish is not None
    assert has_exchanges == (ops.stop_exchanges is not None) == (ops.settle is not None)
    expected = [Command.PUBLISH, Command.HOLD] * (aggregating if has_exchanges else 0)
    assert getattr(session, "commands", []) == expected
