"""What agents are made of where servers add up dense vectors."""

from __future__ import annotations

from hosts.dense.client import DenseClient
from hosts.ps.agents import agents_of
from hosts.psdense.server import make_adder
from hosts.psdense.worker import make_pusher


class PushClient(DenseClient):
    """One worker's calls for one job, to servers that add up."""

    make_state = staticmethod(make_pusher)


AGENTS = agents_of(PushClient, make_adder, "hosts.dense.scapy_layer")
