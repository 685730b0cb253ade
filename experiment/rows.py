"""What is in the switch's tables from the beginning of a run."""

from __future__ import annotations

from collections.abc import Sequence

from controller.designs import CONTROL
from controller.tables import Settings
from experiment.config import EPOCH, Config
from foundation.designs.interface import Arm, Hosts
from foundation.designs.registry import design


def rows(config: Config, arms: Sequence[Arm] | None = None, epoch: int = EPOCH) -> list[Settings]:
    """All rows of a run of these arms, or of all that there are, before a design is prepared."""
    hosts = Hosts(config.workers, config.servers, config.workers_at_a_port)
    arms = config.every_arm if arms is None else arms
    found: list[Settings] = CONTROL.of(design(config.design)).rows(hosts, arms, epoch)
    return found
