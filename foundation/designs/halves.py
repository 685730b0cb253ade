"""The functions that loops call, of whatever design: numba chooses bodies by the class of the state."""

from __future__ import annotations

from typing import TypeVar

from foundation.designs.interface import ServerHalf, ServerState, WorkerHalf, WorkerState
from nativekit.generic import generics, implement

W = TypeVar("W", bound=WorkerState)
P = TypeVar("P", bound=ServerState)

WORKER: WorkerHalf[WorkerState] = generics(WorkerHalf)
SERVER: ServerHalf[ServerState] = generics(ServerHalf)


def worker_half(state: type[W], half: WorkerHalf[W]) -> WorkerHalf[W]:
    """Have states of a class driven by these functions."""
    implement(state, WORKER, half)
    return half


def server_half(state: type[P], half: ServerHalf[P]) -> ServerHalf[P]:
    """Have states of a class served by these functions."""
    implement(state, SERVER, half)
    return half
