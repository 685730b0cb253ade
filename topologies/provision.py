"""Give the switch its pipeline, and every job its rows; then leave the primary role to others."""

from __future__ import annotations

from controller.controller import Controller
from experiment.config import Config
from experiment.rows import rows


async def provision(address: str, config: Config) -> None:
    """Commit the pipeline and install the rows of the design."""
    async with Controller(address, undisturbed=True, design=config.design) as controller:
        await controller.commit_pipeline()
        await controller.install(*rows(config))
