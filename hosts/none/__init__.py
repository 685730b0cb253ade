"""Servers only: workers send keys to servers, and the switch just forwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from hosts.none.ps import SERVER, make_values_server
from hosts.none.worker import WORKER, RequestsHeader, make_requests
from hosts.ps.core import make_agents
from hosts.worker.client import DesignClient

__all__ = ["AGENTS", "SERVER", "WORKER", "RequestClient"]


class RequestClient(DesignClient):
    _header: RequestsHeader
    _push_number = 0  # number of earlier pushes to the table (`prepare`)
    make_state = staticmethod(make_requests)

    def prepare(self, push_number: int, word_flags: int = 0) -> None:
        self._push_number, self._header.word_flags = push_number, word_flags

    def push(
        self, iteration: int, positions: NDArray[np.integer], deltas: Values, answered: NDArray[np.bool_]
    ) -> None:
        self._header.push_number = self._push_number
        self._push_number += 1
        super().push(iteration, positions, deltas, answered)


AGENTS = make_agents(RequestClient, make_values_server, scapy_module="foundation.protocol.scapy_layer")
