"""SwitchML: what workers do where the switch adds up dense vectors, chunk by chunk."""

from hosts.ps.bystander import SERVER
from hosts.switchml.worker import WORKER

__all__ = ["SERVER", "WORKER"]
