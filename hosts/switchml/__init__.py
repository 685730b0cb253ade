"""SwitchML: workers send dense vectors chunk by chunk, and the switch adds them up."""

from __future__ import annotations

from hosts.ps.agents import agents_of
from hosts.ps.idle_server import SERVER, make_idle_server
from hosts.switchml.client import Client
from hosts.switchml.worker import WORKER

__all__ = ["AGENTS", "SERVER", "WORKER"]

AGENTS = agents_of(Client, make_idle_server, "hosts.switchml.scapy_layer")
