"""Give the switch its pipeline, and every job its rows; then leave the primary role to others."""

from __future__ import annotations

from collections.abc import Sequence

from controller.controller import Controller
from controller.tables import Settings
from designs.interface import Arm, Hosts
from designs.registry import design
from topologies.config import EPOCH, Config


async def provision(address: str, config: Config) -> None:
    """Commit the pipeline and install the rows of the design."""
    async with Controller(address, undisturbed=True, design=config.design) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config))


def rows(config: Config, arms: Sequence[Arm] | None = None, epoch: int = EPOCH) -> list[Settings]:
    """All rows of a run of these arms, or of all that there are, before any hot set."""
    hosts = Hosts(config.workers, config.servers, config.workers_at_a_port)
    arms = config.every_arm if arms is None else arms
    found: list[Settings] = design(config.design).control.rows(hosts, arms, epoch)
    return found
