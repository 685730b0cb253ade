"""Give the switch its pipeline, and every job its rows; then leave the primary role to others."""

from __future__ import annotations

from collections.abc import Sequence

from controller.controller import Controller
from experiment.config import Config
from experiment.rows import rows
from foundation.designs.interface import Arm


async def provision(address: str, config: Config, arms: Sequence[Arm] | None = None) -> None:
    """Commit the pipeline and install the rows of the design, for these arms or for all."""
    async with Controller(address, undisturbed=True, design=config.design) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config, arms))
