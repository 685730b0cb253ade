"""A parameter server's loop in virtual time, as `hosts.ps.serve` has it: answer a burst of what has come."""

from __future__ import annotations

from foundation.designs.interface import COMMAND, NOTHING, SERVER_OPS, ServerState
from foundation.protocol.header import PS_RPC_PORT
from hosts.udp import BURST
from nativekit.compile import compiled, int64
from nativekit.records import Octets
from nativekit.reference import row
from simulator.agents import drawn, flush, frame_of, take_frame
from simulator.cores import block, go_on
from simulator.links import finish_head, free_frame, new_frame, put_aside, turn_round
from simulator.state import HEAD_BYTES, World
from simulator.worker import FULL, WENT_ON

(
    handle, lanes, stamp, charge, share_cpu, needs_room, transmit, address, octets, peer, wake, *_,
) = SERVER_OPS  # fmt: skip
_PORT = 36
"""Place of the UDP destination in a frame."""


@compiled
def is_own(head: Octets) -> bool:
    """Whether a frame has come to the port of a server's own RPCs."""
    return int64(head[_PORT]) << 8 | int64(head[_PORT + 1]) == PS_RPC_PORT


@compiled
def step_server(world: World, a: int, now: int) -> int:
    """A round of the loop of the server that is agent `a`."""
    server = row(world.servers, a - int64(world.me.workers))
    if world.agents[a].stalled > now:
        go_on(world, a, now, int64(world.agents[a].stalled))
        return WENT_ON
    if needs_room(server, BURST):
        return FULL
    costs, n = world.costs, min(int64(world.agents[a].waiting), BURST)
    if server.header.due <= now:
        wake(server, now)
    if n == 0:
        until = _send_own(world, a, server, now)
        if until > now:
            go_on(world, a, now, until)
        else:
            block(world, a, now, int64(server.header.due))
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
        took = drawn(world, costs.serve) + int64(costs.lane) * lanes(server, frame.rpc)
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
        if length == COMMAND:
            put_aside(world, a, f)
        else:
            free_frame(world, f)
        read += took
    share_cpu(server, read - taken)
    until = flush(world, a, answers, read, int64(costs.serve_send))
    go_on(world, a, now, _send_own(world, a, server, until))
    return WENT_ON


@compiled
def _send_own(world: World, a: int, server: ServerState, now: int) -> int:
    """Send a burst of what the server sends of itself; returns the time."""
    n = int64(0)
    while n < BURST:
        s = transmit(server, now)
        if s == NOTHING:
            break
        world.burst[n] = frame_of(world, a, peer(server, s), address(server, s), octets(server, s))
        n += 1
    return flush(world, a, n, now, int64(world.costs.serve_send))
