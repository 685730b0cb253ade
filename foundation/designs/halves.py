"""The functions that loops call, of whatever design: numba chooses bodies by the class of the state."""

from __future__ import annotations

from foundation.designs.interface import ServerHalf, WorkerHalf
from nativekit.generic import generics, implement

WORKER = generics(WorkerHalf)
SERVER = generics(ServerHalf)


def worker_half(state: type, half: WorkerHalf) -> WorkerHalf:
    """Have states of a class driven by these functions."""
    implement(state, WORKER, half)
    return half


def server_half(state: type, half: ServerHalf) -> ServerHalf:
    """Have states of a class served by these functions."""
    implement(state, SERVER, half)
    return half
