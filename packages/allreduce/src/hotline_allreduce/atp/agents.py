"""ATP: the switch adds up dense vectors in cells that jobs share; servers add up packets that get no cell."""

from __future__ import annotations

from hosts.ps.core import make_agents
from hotline_allreduce.atp.client import AtpClient
from hotline_allreduce.atp.server import SERVER, make_server
from hotline_allreduce.atp.worker import WORKER

__all__ = ["AGENTS", "SERVER", "WORKER"]

AGENTS = make_agents(AtpClient, make_server)
