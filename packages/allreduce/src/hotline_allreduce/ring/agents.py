"""A ring: workers add up dense vectors among themselves, by reduce-scatter and all-gather."""

from __future__ import annotations

from hotline_agents.ps.idle_server import SERVER, make_idle_server
from hotline_agents.ps.server_core import make_agents
from hotline_allreduce.dense.client import DenseClient
from hotline_allreduce.ring.worker import WORKER, make_member

__all__ = ["AGENTS", "SERVER", "WORKER", "RingClient"]


class RingClient(DenseClient):
    min_workers = 2
    make_state = staticmethod(make_member)


AGENTS = make_agents(RingClient, make_idle_server)
