"""Servers only: what workers and servers do where the switch just forwards."""

from hosts.none.ps import SERVER
from hosts.none.worker import WORKER

__all__ = ["SERVER", "WORKER"]
