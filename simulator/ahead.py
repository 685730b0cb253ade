"""What agents will read next, of frames on their way to them or of their own: caches fetch it meanwhile."""

from __future__ import annotations

from foundation.designs.interface import SERVER_OPS, WORKER_OPS
from nativekit.compile import compiled, int64
from nativekit.reference import row
from simulator.state import World

seek_asked, fetch_asked = SERVER_OPS.prefetch_index, SERVER_OPS.prefetch_values
prepare, seek_answered, fetch_answered = (
    WORKER_OPS.prefetch_next,
    WORKER_OPS.prefetch_index,
    WORKER_OPS.prefetch_values,
)


@compiled
def is_coming(world: World, a: int, f: int) -> None:
    """Frame `f` has left the switch for agent `a`."""
    s = a - int64(world.me.workers)
    if s >= 0:
        seek_asked(row(world.servers, s), world.frames[f].rpc)
    else:
        seek_answered(row(world.calls, a), world.frames[f].rpc)


@compiled
def is_there(world: World, a: int, f: int) -> None:
    """And it has come."""
    s = a - int64(world.me.workers)
    if s >= 0:
        fetch_asked(row(world.servers, s), world.frames[f].rpc)
    else:
        fetch_answered(row(world.calls, a), world.frames[f].rpc)
