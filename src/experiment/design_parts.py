"""The parts of each design that a run needs: the switch's rows, and the preparation of its arms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from controller.controller_ops import control_of, rows_in_network
from controller.tables import InitialRow, JobRow
from experiment.run_config import EPOCH, Config
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.designs.registry import design as find_design
from foundation.designs.registry import load_part
from foundation.protocol.leaf_spine import SPINE

# Sessions and traces are `Any`: real and simulated ones differ, and each design uses different parts of them.
Prepare: TypeAlias = Callable[[Any, Any], Awaitable[None]]


def hosts_of(config: Config) -> SwitchHosts:
    return SwitchHosts(config.workers, config.servers, config.workers_per_port)


def initial_rows(
    config: Config, arms: Sequence[Arm] | None = None, epoch: int = EPOCH, switch: int = SPINE
) -> list[InitialRow]:
    """Return the rows that a switch has before agents start: the only one, or one of a network."""
    arms = config.every_arm if arms is None else arms
    rows = rows_of_all_hosts(config, arms, epoch)
    if config.leaf_spine is None:
        return rows
    return rows_in_network(find_design(config.design), rows, config.leaf_spine, switch)


def rows_of_all_hosts(config: Config, arms: Sequence[Arm], epoch: int = EPOCH) -> list[InitialRow]:
    """Return the initial rows of a single switch with all hosts."""
    rows: list[InitialRow] = control_of(find_design(config.design)).rows(hosts_of(config), arms, epoch)
    return [replace(row, ranges=config.row_ranges) if isinstance(row, JobRow) else row for row in rows]


async def prepare(design: Design, session: Any, trace: Any) -> None:
    if design.preparation is not None:
        await cast(Prepare, load_part(design, design.preparation))(session, trace)
