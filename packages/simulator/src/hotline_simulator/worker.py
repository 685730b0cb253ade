"""A worker's loop in virtual time, as `hotline_agents.worker.compiled_loop`: send, then receive a burst."""

from __future__ import annotations

from foundation.protocol.rpc import BUFFER_BYTES
from hotline_agents.interface import NOTHING, WORKER_OPS, WorkerState
from hotline_agents.udp import BURST
from hotline_agents.worker.compiled_loop import SEND_BURST
from hotline_simulator.agents import build_frame, draw_duration, send_burst, take_frame
from hotline_simulator.cores import block, occupy_core
from hotline_simulator.links import rpc_of
from hotline_simulator.state import HEAD_BYTES, RECEIVES, SENDS, World
from nativekit.compile import compiled, int64
from nativekit.reference import row
from softswitch.network.links import free_frame

octets, peer, receive = WORKER_OPS.octets, WORKER_OPS.peer, WORKER_OPS.receive
transmit, wake, prefetch_next = WORKER_OPS.transmit, WORKER_OPS.wake, WORKER_OPS.prefetch_next

CONTINUED, NEEDS_DRIVER, AGENT_LOG_FULL = 0, 1, 2
"""Result of a step: Python is not needed; the driver is due; the agent's log is full."""


@compiled
def step_worker(world: World, w: int, now: int) -> int:
    agent, worker = world.agents[w], row(world.workers, w)
    if worker.header.rows + BURST > len(worker.log):
        return AGENT_LOG_FULL
    if worker.header.pending == 0:
        return _step_idle(world, w, worker, now)
    if agent.phase == SENDS:
        wake(worker, now)
        agent.phase, agent.sent = RECEIVES, 0
        until = _send_datagrams(world, w, worker, now)
        if agent.sent:
            occupy_core(world, w, now, until)
            return CONTINUED
    until = _receive_burst(world, w, worker, now)
    agent.phase = SENDS
    # A worker that has sent or received frames does both again before it waits.
    if until > now or agent.sent:
        occupy_core(world, w, now, until)
    else:
        block(world, w, now, int64(worker.header.due))
    return CONTINUED


@compiled
def _step_idle(world: World, w: int, worker: WorkerState, now: int) -> int:
    """Receive late answers between operations, and send resulting frames; report when the driver is due."""
    agent = world.agents[w]
    if agent.driver_due <= now:
        return NEEDS_DRIVER
    until = _send_datagrams(world, w, worker, _receive_burst(world, w, worker, now))
    if until > now or agent.sent:
        occupy_core(world, w, now, until)
    else:
        block(world, w, now, agent.driver_due)
    return CONTINUED


@compiled
def _send_datagrams(world: World, w: int, worker: WorkerState, now: int) -> int:
    costs, n = world.costs, int64(0)
    while n < SEND_BURST:
        s = transmit(worker, now)
        if s == NOTHING:
            break
        now += costs.encode_ns
        prefetch_next(worker)
        datagram = int64(worker.sent.ctypes.data) + s * BUFFER_BYTES
        world.burst[n] = build_frame(world, w, peer(worker, s), datagram, octets(worker, s))
        n += 1
    world.agents[w].sent = n
    return send_burst(world, w, n, now, costs.send_ns)


@compiled
def _receive_burst(world: World, w: int, worker: WorkerState, now: int) -> int:
    n = min(world.agents[w].waiting, BURST)
    if n == 0:
        return now
    read_at = now + world.costs.take_ns
    for _ in range(n):
        f = take_frame(world, w)
        frame = world.frames[f]
        duration = draw_duration(world, world.costs.receive_ns)
        log_row = receive(worker, rpc_of(world, f), frame.length - HEAD_BYTES, frame.arrival, read_at)
        if log_row != NOTHING:
            worker.log[log_row].w_proc = duration
        free_frame(world, f)
        read_at += duration
    return read_at
