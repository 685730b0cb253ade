"""A ring: workers add up dense vectors among themselves, by reduce-scatter and all-gather."""

from hosts.ps.idle_server import SERVER
from hosts.ring.worker import WORKER

__all__ = ["SERVER", "WORKER"]
