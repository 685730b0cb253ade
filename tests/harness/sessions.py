"""Sessions of runs without a network: idle ones, and real ones with fake parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import polars as pl
from rich.console import Console

from analysis.record import ProgramUse, ServerUse
from experiment.progress import Reporter
from experiment.run_config import Config
from experiment.session import BlockResult, MachineCounters, OnProgress, PlannedBlock, Session
from foundation.logs.columns import OPERATIONS
from tests.harness.records import a_record
from topologies.session import RealSession
from topologies.testbed import SingleMachine


class FakeNetwork(SingleMachine):
    """A network without hosts, but with as many of them as a test says."""

    def __init__(self, switch: Any = None, address: str = "", workers: int = 0, servers: int = 0) -> None:
        self.switch, self.address = switch, address
        self.workers, self.servers = [Mock()] * workers, [Mock()] * servers


class IdleSwitch:
    def frames_sent(self) -> int:
        return 0


def quiet() -> Reporter:
    return Reporter(Console(quiet=True))


class IdleSession(Session):
    """A session in which nothing happens and time stands still; tests override what they need."""

    def __init__(self, config: Config, run: Path = Path("run")) -> None:
        super().__init__(config, run, a_record(machine={"cpus": 2}), quiet())
        self.now_ns = 0

    def clock_ns(self) -> int:
        return self.now_ns

    def budget_clock_s(self) -> float:
        return self.now_ns / 1e9

    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        return []

    async def load(self, keys: Sequence[int]) -> None:
        pass

    async def write_updates(self) -> None:
        pass

    async def new_operations(self) -> pl.DataFrame:
        return pl.DataFrame(schema=OPERATIONS)

    async def server_use(self) -> dict[str, ServerUse]:
        return {}

    async def program_use(self) -> ProgramUse | None:
        return None

    async def run_queues_ns(self) -> dict[str, int]:
        return {}

    def restarts(self) -> dict[str, int]:
        return {}

    async def read_machine(self) -> MachineCounters:
        return MachineCounters(self.now_ns / 1e6)


def real_session(
    config: Config | None = None,
    run: Path = Path("run"),
    *,
    of: type[RealSession] = RealSession,
    record: Any = None,
    network: Any = None,
    workers: Sequence[Any] = (),
    servers: Sequence[Any] = (),
) -> RealSession:
    return of(
        config=config or Config(),
        run=run,
        record=record or a_record(machine={"cpus": 2}),
        reporter=quiet(),
        network=network if network is not None else FakeNetwork(IdleSwitch(), workers=len(workers)),
        workers=list(workers),
        servers=list(servers),
    )
