"""A ring: workers add up dense vectors among themselves, by reduce-scatter and all-gather."""

from hosts.ps.bystander import SERVER
from hosts.ring.worker import WORKER

__all__ = ["SERVER", "WORKER"]
