"""ATP: the switch adds up dense vectors in cells that jobs share; servers add up packets that get no cell."""

from __future__ import annotations

from hosts.atp.client import AtpClient
from hosts.atp.server import SERVER, make_server
from hosts.atp.worker import WORKER
from hosts.ps.core import make_agents

__all__ = ["AGENTS", "SERVER", "WORKER"]

AGENTS = make_agents(AtpClient, make_server, scapy_module="hosts.atp.scapy_layer")
