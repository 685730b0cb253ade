"""The rows of a run with servers only."""

from __future__ import annotations

from controller.routes import routes
from controller.tables import Settings
from foundation.designs.interface import Control, Hosts


def _rows(hosts: Hosts, _jobs: object, _epoch: int) -> list[Settings]:
    return list(routes(hosts))


CONTROL = Control(_rows)
