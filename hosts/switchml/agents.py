"""What agents are made of in SwitchML."""

from __future__ import annotations

from hosts.ps.agents import agents_of
from hosts.ps.idle_server import make_idle_server
from hosts.switchml.client import Client

AGENTS = agents_of(Client, make_idle_server, "hosts.switchml.scapy_layer")
