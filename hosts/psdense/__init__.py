"""Dense vectors at parameter servers: servers add up the vectors of all workers, chunk by chunk."""

from __future__ import annotations

from hosts.dense.client import DenseClient
from hosts.ps.core import make_agents
from hosts.psdense.server import SERVER, make_adder
from hosts.psdense.worker import WORKER, make_pusher

__all__ = ["AGENTS", "SERVER", "WORKER", "PushClient"]


class PushClient(DenseClient):
    make_state = staticmethod(make_pusher)


AGENTS = make_agents(PushClient, make_adder, scapy_module="hosts.dense.scapy_layer")
