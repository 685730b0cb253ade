"""What agents are made of where there are servers only."""

from __future__ import annotations

from hosts.none.ps import make_holder
from hosts.none.worker import make_requests
from hosts.ps.agents import agents_of
from hosts.worker.client import DesignClient


class Client(DesignClient):
    """One worker's calls for one job."""

    make_state = staticmethod(make_requests)


AGENTS = agents_of(Client, make_holder, "foundation.protocol.scapy_layer")
