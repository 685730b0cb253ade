"""SwitchML: workers send dense vectors chunk by chunk, and the switch adds them up."""

from __future__ import annotations

from hosts.ps.core import make_agents
from hosts.ps.idle_server import SERVER, make_idle_server
from hotline_allreduce.switchml.client import SwitchMLClient
from hotline_allreduce.switchml.worker import WORKER

__all__ = ["AGENTS", "SERVER", "WORKER"]

AGENTS = make_agents(SwitchMLClient, make_idle_server)
