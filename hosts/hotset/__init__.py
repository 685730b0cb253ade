"""The design with the hot set in the switch: what its workers and its servers do."""

from hosts.hotset.ps.half import SERVER
from hosts.hotset.worker.half import WORKER

__all__ = ["SERVER", "WORKER"]
