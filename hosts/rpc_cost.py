from __future__ import annotations

from typing import NamedTuple


class RpcCost(NamedTuple):
    """CPU time of an RPC at worker and server, in µs."""

    worker_us: float
    server_us: float
