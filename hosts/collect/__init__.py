"""The design whose servers own all parameters, publish copies in the switch, and collect gradients."""

from __future__ import annotations

from typing import Any

from foundation.designs.interface import Agents, ServerOps, register_server_ops
from hosts.collect import collector
from hosts.collect.client import CollectClient
from hosts.collect.core import CollectingServer
from hosts.collect.rpc import handle
from hosts.collect.state import CollectServer, make_server, needs_room
from hosts.collect.store import CollectStore, warm
from hosts.config import RunSettings
from hosts.hotset import WORKER
from hosts.ps.prefetch import prefetch_index, prefetch_values
from hosts.ps.rpcs import charge, share_cpu, stamp, unserved_lanes

__all__ = ["AGENTS", "SERVER", "WORKER"]

SERVER = register_server_ops(
    CollectServer,
    ServerOps(
        handle, unserved_lanes, stamp, charge, share_cpu, needs_room, collector.transmit, collector.address,
        collector.octets, collector.peer, collector.wake, prefetch_index, prefetch_values,
    ),
)  # fmt: skip


def configure(server: CollectServer, settings: RunSettings) -> None:
    server.collectors.staleness = round(settings.collection.staleness_ms * 1_000_000)
    server.collectors.share = settings.collection.share_of_server


# The type parameter is the type of an address, which differs between sockets and simulation.
AGENTS: Agents[CollectClient, CollectServer, CollectStore, CollectingServer[Any]] = Agents(
    client=CollectClient,
    server=make_server,
    store=CollectStore,
    core=CollectingServer,
    scapy="foundation.protocol.scapy_layer",
    warm_server=warm,
    configure=configure,
)
