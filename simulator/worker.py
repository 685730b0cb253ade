"""A worker's loop in virtual time, as `hosts.worker.operate` has it: send a burst, take what has come."""

from __future__ import annotations

from foundation.designs.interface import NOTHING, WORKER_OPS, WorkerState
from foundation.protocol.rpc import BUFFER_BYTES
from hosts.udp import BURST
from hosts.worker.operate import SEND_BURST
from nativekit.compile import compiled, int64
from nativekit.reference import row
from simulator.agents import drawn, flush, frame_of, take_frame
from simulator.ahead import prepare
from simulator.cores import block, go_on
from simulator.links import free_frame
from simulator.state import HEAD_BYTES, RECEIVES, SENDS, World

octets, peer, receive = WORKER_OPS.octets, WORKER_OPS.peer, WORKER_OPS.receive
transmit, wake = WORKER_OPS.transmit, WORKER_OPS.wake

WENT_ON, ASKS, FULL = 0, 1, 2
"""What has become of a step: nothing for Python; its driver is asked what to do; its log is full."""


@compiled
def step_worker(world: World, w: int, now: int) -> int:
    """Half a round of the loop of worker `w`."""
    agent, calls = world.agents[w], row(world.calls, w)
    if calls.header.rows + BURST > len(calls.log):
        return FULL
    if calls.header.pending == 0:
        return _step_idle(world, w, calls, now)
    if agent.half == SENDS:
        wake(calls, now)
        agent.half, agent.busy = RECEIVES, 0
        until = _send_some(world, w, calls, now)
        if agent.busy:
            go_on(world, w, now, until)
            return WENT_ON
    until = _receive_some(world, w, calls, now)
    agent.half = SENDS
    if until > now or agent.busy:
        go_on(world, w, now, until)
    else:
        block(world, w, now, int64(calls.header.due))
    return WENT_ON


@compiled
def _step_idle(world: World, w: int, calls: WorkerState, now: int) -> int:
    """Between two operations: what is late is taken and answered; the driver is asked when it wants to be."""
    agent = world.agents[w]
    if agent.until <= now:
        return ASKS
    until = _send_some(world, w, calls, _receive_some(world, w, calls, now))
    if until > now or agent.busy:
        go_on(world, w, now, until)
    else:
        block(world, w, now, int64(agent.until))
    return WENT_ON


@compiled
def _send_some(world: World, w: int, calls: WorkerState, now: int) -> int:
    """Send a burst of what may be sent, of `agent.busy` datagrams; returns the time."""
    costs, n = world.costs, int64(0)
    while n < SEND_BURST:
        s = transmit(calls, now)
        if s == NOTHING:
            break
        now += costs.encode
        prepare(calls)
        datagram = int64(calls.sent.ctypes.data) + s * BUFFER_BYTES
        world.burst[n] = frame_of(world, w, peer(calls, s), datagram, octets(calls, s))
        n += 1
    world.agents[w].busy = n
    return flush(world, w, n, now, int64(costs.send))


@compiled
def _receive_some(world: World, w: int, calls: WorkerState, now: int) -> int:
    """Take in what has come; returns the time. Each waits until the one before is done."""
    n = min(int64(world.agents[w].waiting), BURST)
    if n == 0:
        return now
    read = now + int64(world.costs.burst)
    for _ in range(n):
        f = take_frame(world, w)
        frame = world.frames[f]
        took = drawn(world, world.costs.receive)
        logged = receive(calls, frame.rpc, int64(frame.length) - HEAD_BYTES, int64(frame.arrival), read)
        if logged != NOTHING:
            calls.log[logged].w_proc = took
        free_frame(world, f)
        read += took
    return read
