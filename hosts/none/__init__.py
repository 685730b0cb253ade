"""Servers only: workers send keys to servers, and the switch just forwards."""

from __future__ import annotations

from hosts.none.ps import SERVER, make_holder
from hosts.none.worker import WORKER, make_requests
from hosts.ps.core import agents_of
from hosts.worker.client import DesignClient

__all__ = ["AGENTS", "SERVER", "WORKER", "RequestClient"]


class RequestClient(DesignClient):
    """One worker's calls for one job."""

    make_state = staticmethod(make_requests)


AGENTS = agents_of(RequestClient, make_holder, "foundation.protocol.scapy_layer")
