"""What agents are made of in SwitchML."""

from __future__ import annotations

from hosts.ps.agents import agents_of
from hosts.ps.bystander import make_bystander
from hosts.switchml.client import Client

AGENTS = agents_of(Client, make_bystander, "hosts.switchml.scapy_layer")
