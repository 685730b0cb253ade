"""A server's loop in virtual time, as in `hotline_agents.ps.compiled_loop`: answer a burst of frames."""

from __future__ import annotations

from foundation.protocol.header import PS_RPC_PORT
from hotline_agents.interface import COMMAND, NOTHING, SERVER_OPS, ServerState
from hotline_agents.udp import BURST
from hotline_simulator.agents import build_frame, draw_duration, send_burst, take_frame
from hotline_simulator.cores import block, occupy_core
from hotline_simulator.links import DESTINATION_PORT, fill_head, head_of, rpc_of, swap_endpoints
from hotline_simulator.state import HEAD_BYTES, World
from hotline_simulator.worker import AGENT_LOG_FULL, CONTINUED
from nativekit.compile import compiled, int64
from nativekit.records import Octets
from nativekit.reference import row
from softswitch.network.links import defer_to_python, free_frame, new_frame
from softswitch.network.state import ABSENT, AT_HOST

handle, lanes, stamp, wake = SERVER_OPS.handle, SERVER_OPS.lanes, SERVER_OPS.stamp, SERVER_OPS.wake
share_cpu, needs_room, transmit = SERVER_OPS.share_cpu, SERVER_OPS.needs_room, SERVER_OPS.transmit
address, octets, peer = SERVER_OPS.address, SERVER_OPS.octets, SERVER_OPS.peer


@compiled
def is_rpc_answer(head: Octets) -> bool:
    # The server itself sent the RPC, from this port, to the switch.
    return int64(head[DESTINATION_PORT]) << 8 | int64(head[DESTINATION_PORT + 1]) == PS_RPC_PORT


@compiled
def step_server(world: World, a: int, now: int) -> int:
    server = row(world.servers, a - world.header.workers)
    if world.agents[a].stalled_until > now:
        occupy_core(world, a, now, world.agents[a].stalled_until)
        return CONTINUED
    if needs_room(server, BURST):
        return AGENT_LOG_FULL
    costs, n = world.costs, min(world.agents[a].waiting, BURST)
    if server.header.due <= now:
        wake(server, now)
    if n == 0:
        until = _send_pending(world, a, server, now)
        if until > now:
            occupy_core(world, a, now, until)
        else:
            block(world, a, now, int64(server.header.due))
        return CONTINUED
    world.agents[a].bursts += 1
    poll_ns = costs.connection_ns * world.header.connections
    dispatch_ns = poll_ns + costs.serve_take_ns
    burst_read_at, answers = now + dispatch_ns, int64(0)
    competition = 1.0 + costs.contention * (n - 1)
    finished_at = burst_read_at
    for _ in range(n):
        f = take_frame(world, a)
        head = head_of(world, f)
        if is_rpc_answer(head):
            defer_to_python(world, AT_HOST, a, f)
            continue
        g = new_frame(world, HEAD_BYTES, ABSENT, 0)
        frame, rpc, answer = world.frames[f], rpc_of(world, f), rpc_of(world, g)
        arrival = frame.arrival
        n_lanes, further_values = lanes(server, rpc), max(int64(rpc.dim), 1) - 1
        duration = draw_duration(world, costs.serve_ns) + costs.lane_ns * n_lanes
        duration += int64(costs.value_ns * (n_lanes * further_values))
        duration = int64(duration * competition)
        length = handle(server, rpc, frame.length - HEAD_BYTES, arrival, answer)
        if length > 0:
            # The frame has waited until the burst was read, and the frames before it were finished.
            waited = finished_at - arrival
            queued = min(waited, dispatch_ns) if costs.has_request_threads else waited
            stamp(server, answer, duration + waited - queued + costs.latency_ns, queued)
            answer_head = head_of(world, g)
            swap_endpoints(answer_head, head)
            fill_head(answer_head, length)
            world.frames[g].length = HEAD_BYTES + length
            world.burst[answers] = g
            answers += 1
        else:
            free_frame(world, g)
        if length == COMMAND:
            defer_to_python(world, AT_HOST, a, f)
        else:
            free_frame(world, f)
        finished_at += duration
    share_cpu(server, finished_at - burst_read_at)
    # Answers leave `latency_ns` later, but the server continues at once.
    sent_at = send_burst(world, a, answers, finished_at + costs.latency_ns, costs.serve_send_ns)
    occupy_core(world, a, now, _send_pending(world, a, server, sent_at - costs.latency_ns))
    return CONTINUED


@compiled
def _send_pending(world: World, a: int, server: ServerState, now: int) -> int:
    n = int64(0)
    while n < BURST:
        s = transmit(server, now)
        if s == NOTHING:
            break
        world.burst[n] = build_frame(world, a, peer(server, s), address(server, s), octets(server, s))
        n += 1
    return send_burst(world, a, n, now, world.costs.serve_send_ns)
