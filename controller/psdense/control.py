"""The rows of a run with servers that add up dense vectors: routes alone."""

from __future__ import annotations

from controller.controller import Controller
from controller.routes import routes
from controller.tables import Settings
from foundation.designs.interface import Arm, Control, Hosts


def _rows(hosts: Hosts, _jobs: object, _epoch: int) -> list[Settings]:
    return list(routes(hosts))


async def _is_changed(_controller: Controller, _arm: Arm) -> bool:
    return False


async def _held(_controller: Controller, _arm: Arm) -> dict[int, int]:
    return {}


async def _overflows(_controller: Controller) -> int:
    return 0


CONTROL = Control(_rows, _is_changed, _held, _overflows)
