"""A parameter server's loop in virtual time, as `hosts.ps.serve` has it: answer a burst of what has come."""

from __future__ import annotations

from typing import Any

from hosts.ps.rpc import IS_CONTROL, handle, lanes_left, stamp
from hosts.ps.serve import share_cpu
from hosts.ps.share import Share
from hosts.ps.state import Server, needs_room
from hosts.udp import BURST
from hosts.worker.state import NEVER
from native.compile import compiled, inlined, int64
from native.reference import borrowed
from protocol.header import PS_RPC_PORT
from simulator.agents import drawn, flush, take_frame
from simulator.cores import block, go_on
from simulator.links import finish_head, free_frame, new_frame, put_aside, turn_round
from simulator.state import HEAD_BYTES, World
from simulator.worker import FULL, WENT_ON

_PORT = 36
"""Place of the UDP destination in a frame."""


@inlined
def server_of(world: World, p: int) -> Server:
    """Server `p`."""
    s = world.servers
    share = Share(s.share.me[p], s.share.ranks[p], s.share.table[p])
    server: Server = borrowed(
        Server(s.me[p], s.jobs[p], s.callers[p], s.cells[p], s.lent[p], s.contacts[p], s.journal[p], share)
    )
    return server


@compiled
def is_own(head: Any) -> bool:
    """Whether a frame has come to the port of a server's own RPCs."""
    return int64(head[_PORT]) << 8 | int64(head[_PORT + 1]) == PS_RPC_PORT


@compiled
def step_server(world: World, a: int, now: int) -> int:
    """A round of the loop of the server that is agent `a`."""
    server = server_of(world, a - int64(world.me.workers))
    if world.agents[a].stalled > now:
        go_on(world, a, now, int64(world.agents[a].stalled))
        return WENT_ON
    if needs_room(server, BURST):
        return FULL
    costs, n = world.costs, min(int64(world.agents[a].waiting), BURST)
    if n == 0:
        block(world, a, now, NEVER)
        return WENT_ON
    looked = int64(costs.connection) * int64(world.me.connections)
    taken, answers = now + looked + int64(costs.serve_burst), int64(0)
    read = taken
    for _ in range(n):
        f = take_frame(world, a)
        if is_own(world.frames[f].head):
            put_aside(world, a, f)
            continue
        g = new_frame(world)
        frame, answer = world.frames[f], world.frames[g]
        arrival = int64(frame.arrival)
        took = drawn(world, costs.serve) + int64(costs.lane) * lanes_left(frame.rpc)
        length = handle(server, frame.rpc, int64(frame.length) - HEAD_BYTES, arrival, answer.rpc)
        if length > 0:
            stamp(server, answer.rpc, took, read - arrival)
            turn_round(answer.head, frame.head)
            finish_head(answer.head, length)
            answer.length = HEAD_BYTES + length
            world.burst[answers] = g
            answers += 1
        else:
            free_frame(world, g)
        if length == IS_CONTROL:
            put_aside(world, a, f)
        else:
            free_frame(world, f)
        read += took
    share_cpu(server, read - taken)
    go_on(world, a, now, flush(world, a, answers, read, int64(costs.serve_send)))
    return WENT_ON
