"""Prefetch hints for frames under way: they change the speed of the simulation and nothing else."""

from __future__ import annotations

from foundation.designs.interface import SERVER_OPS, WORKER_OPS
from nativekit.compile import compiled, int64
from nativekit.reference import row
from simulator.state import World

prefetch_request_index, prefetch_request_values = SERVER_OPS.prefetch_index, SERVER_OPS.prefetch_values
prefetch_answer_index, prefetch_answer_values = WORKER_OPS.prefetch_index, WORKER_OPS.prefetch_values


@compiled
def prefetch_departed(world: World, a: int, f: int) -> None:
    """Prefetch the index of the keys of frame `f`, which has left the switch for agent `a`."""
    s = a - int64(world.header.workers)
    if s >= 0:
        prefetch_request_index(row(world.servers, s), world.frames[f].rpc)
    else:
        prefetch_answer_index(row(world.workers, a), world.frames[f].rpc)


@compiled
def prefetch_arrived(world: World, a: int, f: int) -> None:
    """Prefetch the values of the keys of frame `f`, which is in the inbox of agent `a`."""
    s = a - int64(world.header.workers)
    if s >= 0:
        prefetch_request_values(row(world.servers, s), world.frames[f].rpc)
    else:
        prefetch_answer_values(row(world.workers, a), world.frames[f].rpc)
