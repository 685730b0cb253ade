"""SwitchML: what workers do where the switch adds up dense vectors, chunk by chunk."""

from hosts.ps.idle_server import SERVER
from hosts.switchml.worker import WORKER

__all__ = ["SERVER", "WORKER"]
