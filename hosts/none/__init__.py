"""Servers only: workers send keys to servers, and the switch just forwards."""

from __future__ import annotations

from hosts.none.ps import SERVER, make_values_server
from hosts.none.worker import WORKER, RequestsHeader, make_requests
from hosts.ps.core import make_agents
from hosts.worker.client import DesignClient, NumberedPushes

__all__ = ["AGENTS", "SERVER", "WORKER", "RequestClient"]


class RequestClient(DesignClient, NumberedPushes):
    _header: RequestsHeader
    make_state = staticmethod(make_requests)


AGENTS = make_agents(RequestClient, make_values_server)
