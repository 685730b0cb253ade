"""Servers only: workers send keys to servers, and the switch just forwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotline_agents.none.ps import SERVER, make_values_server
from hotline_agents.none.worker import WORKER, RequestsHeader, make_requests
from hotline_agents.ps.server_core import make_agents
from hotline_agents.worker.client import DesignClient, NumberedPushes

__all__ = ["AGENTS", "SERVER", "WORKER", "RequestClient"]


class RequestClient(DesignClient, NumberedPushes):
    _header: RequestsHeader
    make_state = staticmethod(make_requests)

    def _count_values(self, positions: NDArray[np.integer]) -> int:
        return self._space.count_values(positions)


AGENTS = make_agents(RequestClient, make_values_server)
