"""What agents are made of where workers add up dense vectors in a ring."""

from __future__ import annotations

from hosts.dense.client import DenseClient
from hosts.ps.agents import agents_of
from hosts.ps.idle_server import make_idle_server
from hosts.ring.state import make_member


class RingClient(DenseClient):
    """One worker's calls for one job, between the worker before it and the next."""

    least_workers = 2
    make_state = staticmethod(make_member)


AGENTS = agents_of(RingClient, make_idle_server, "hosts.dense.scapy_layer")
