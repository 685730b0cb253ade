"""Dense vectors at parameter servers: what workers and servers do where servers add up, chunk by chunk."""

from hosts.psdense.server import SERVER
from hosts.psdense.worker import WORKER

__all__ = ["SERVER", "WORKER"]
