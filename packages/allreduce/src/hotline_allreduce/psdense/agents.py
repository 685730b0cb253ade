"""Dense vectors at parameter servers: servers add up the vectors of all workers, chunk by chunk."""

from __future__ import annotations

from hotline_agents.ps.server_core import make_agents
from hotline_allreduce.dense.client import DenseClient
from hotline_allreduce.psdense.server import SERVER, make_adder
from hotline_allreduce.psdense.worker import WORKER, make_pusher

__all__ = ["AGENTS", "SERVER", "WORKER", "PushClient"]


class PushClient(DenseClient):
    make_state = staticmethod(make_pusher)


AGENTS = make_agents(PushClient, make_adder)
