"""What may happen to a server's state, as Python calls it. Of any design."""

from __future__ import annotations

from typing import Any, cast

from designs import halves
from native.generic import Generic
from native.loops import loop
from native.reference import borrowed

handle, stamp, needs_room = halves.SERVER.handle, halves.SERVER.stamp, halves.SERVER.needs_room


def server_states(state: Any) -> list[tuple[Generic, type]]:
    """The class of a server's state."""
    return [(cast(Any, halves.SERVER.handle), type(state))]


@loop(server_states)
def handle_one(server: Any, rpcs: Any, length: int, arrival: int) -> int:
    """`handle` the datagram in rpcs[0], the answer to rpcs[1]."""
    return handle(borrowed(server), rpcs[0], length, arrival, rpcs[1])


@loop(server_states)
def stamp_one(server: Any, rpcs: Any, ps_proc: int, ps_queue: int) -> None:
    """`stamp` the answer in rpcs[1]."""
    stamp(borrowed(server), rpcs[1], ps_proc, ps_queue)


@loop(server_states)
def lacks_room(server: Any, datagrams: int) -> bool:
    """`needs_room`."""
    return needs_room(borrowed(server), datagrams)
