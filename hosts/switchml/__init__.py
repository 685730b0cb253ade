"""SwitchML: what workers do where the switch adds up dense vectors, chunk by chunk."""

from hosts.switchml.server import SERVER
from hosts.switchml.worker import WORKER

__all__ = ["SERVER", "WORKER"]
