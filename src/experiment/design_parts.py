"""The parts of each design that a run needs: the switch's rows, and the preparation of its arms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from controller.controller_ops import control_of
from controller.tables import InitialRow, JobRow
from experiment.run_config import EPOCH, Config
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.designs.registry import design as find_design
from foundation.designs.registry import load_part

# Sessions and traces are `Any`: real and simulated ones differ, and each design uses different parts of them.
Prepare: TypeAlias = Callable[[Any, Any], Awaitable[None]]


def hosts_of(config: Config) -> SwitchHosts:
    return SwitchHosts(config.workers, config.servers, config.workers_per_port)


def initial_rows(config: Config, arms: Sequence[Arm] | None = None, epoch: int = EPOCH) -> list[InitialRow]:
    arms = config.every_arm if arms is None else arms
    switch_rows: list[InitialRow] = control_of(find_design(config.design)).rows(hosts_of(config), arms, epoch)
    return [replace(row, ranges=config.row_ranges) if isinstance(row, JobRow) else row for row in switch_rows]


async def prepare(design: Design, session: Any, trace: Any) -> None:
    if design.preparation is not None:
        await cast(Prepare, load_part(design, design.preparation))(session, trace)
