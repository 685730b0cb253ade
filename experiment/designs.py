"""The parts of each design that a run needs: the switch's rows, and the preparation of its arms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from controller.designs import CONTROL
from controller.tables import InitialRow
from experiment.config import EPOCH, Config
from foundation.designs.interface import Arm, Design, Hosts
from foundation.designs.registry import Parts
from foundation.designs.registry import design as find_design

# Sessions and traces are `Any`: real and simulated ones differ, and each design uses different parts of them.
PREPARATION = Parts[Callable[[Any, Any], Awaitable[None]]](
    package="experiment",
    attribute="prepare",
    modules={"collect": "experiment.hotset", "hotset": "experiment.hotset"},
)


def initial_rows(config: Config, arms: Sequence[Arm] | None = None, epoch: int = EPOCH) -> list[InitialRow]:
    hosts = Hosts(config.workers, config.servers, config.workers_per_port)
    arms = config.every_arm if arms is None else arms
    switch_rows: list[InitialRow] = CONTROL.for_design(find_design(config.design)).rows(hosts, arms, epoch)
    return switch_rows


async def prepare(design: Design, session: Any, trace: Any) -> None:
    function = PREPARATION.find(design)
    if function is not None:
        await function(session, trace)
