"""The design with the hot set in the switch: functions of its workers and servers, and its agents."""

from __future__ import annotations

from typing import Any

from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.ps.rpc import handle
from hotline_agents.hotset.ps.state import HotsetServer, make_server, needs_room
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_agents.hotset.worker import prefetch
from hotline_agents.hotset.worker.answers import receive
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.hotset.worker.recovery import next_unreplayed, take_unreplayed
from hotline_agents.hotset.worker.requests import deadline, start, transmit, wake
from hotline_agents.hotset.worker.state import Calls
from hotline_agents.interface import Agents, ServerOps, WorkerOps, register_server_ops, register_worker_ops
from hotline_agents.ps.prefetch import prefetch_index, prefetch_values
from hotline_agents.ps.rpcs import charge, share_cpu, stamp, unserved_lanes
from hotline_agents.worker.rpcs import peer
from hotline_agents.worker.window import octets

__all__ = ["AGENTS", "SERVER", "WORKER"]

WORKER = register_worker_ops(
    Calls,
    WorkerOps(
        start=start,
        transmit=transmit,
        octets=octets,
        peer=peer,
        wake=wake,
        deadline=deadline,
        receive=receive,
        next_unreplayed=next_unreplayed,
        take_unreplayed=take_unreplayed,
        prefetch_next=prefetch.prefetch_next,
        prefetch_index=prefetch.prefetch_index,
        prefetch_values=prefetch.prefetch_values,
    ),
)
SERVER = register_server_ops(
    HotsetServer,
    ServerOps(
        handle=handle,
        lanes=unserved_lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_room,
        prefetch_index=prefetch_index,
        prefetch_values=prefetch_values,
    ),
)

# The parameter is the type of an address, which differs between sockets and simulation.
AGENTS: Agents[HotsetClient, HotsetServer, HotsetStore, ParameterServer[Any]] = Agents(
    client=HotsetClient,
    server=make_server,
    store=HotsetStore,
    core=ParameterServer,
)
