"""The design whose servers own all parameters, publish copies in the switch, and collect gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from foundation.errors import HotlineError
from hosts.agent_config import RunSettings
from hotline_agents.collect import collector
from hotline_agents.collect.moves import CollectClient, CollectMover
from hotline_agents.collect.rpc import handle
from hotline_agents.collect.state import COLLECTIONS, CollectServer, make_server, needs_room
from hotline_agents.collect.store import CollectStore, warm
from hotline_agents.hotset import WORKER
from hotline_agents.hotset.ps.moves import ReplyTo
from hotline_agents.hotset.ps.parameter_server import OffloadingServer
from hotline_agents.interface import Agents, ServerOps, register_server_ops
from hotline_agents.ps.prefetch import prefetch_index, prefetch_values
from hotline_agents.ps.rpcs import charge, share_cpu, stamp, unserved_lanes
from hotline_agents.worker.window import NS_PER_MS

__all__ = ["AGENTS", "SERVER", "WORKER", "CollectingServer"]

SERVER = register_server_ops(
    CollectServer,
    ServerOps(
        handle=handle,
        lanes=unserved_lanes,
        stamp=stamp,
        charge=charge,
        share_cpu=share_cpu,
        needs_room=needs_room,
        transmit=collector.transmit,
        address=collector.address,
        octets=collector.octets,
        peer=collector.peer,
        wake=collector.wake,
        prefetch_index=prefetch_index,
        prefetch_values=prefetch_values,
    ),
)


class CollectingServer(OffloadingServer[ReplyTo]):
    """A server that restores its collections, too."""

    stores: Mapping[int, CollectStore]
    persisted_arrays = (
        "cells", "collected", "last_sums", "unsettled", "copies", "collectors", "collections", "requests",
    )  # fmt: skip
    make_state = staticmethod(make_server)
    make_store = CollectStore
    make_mover = CollectMover

    def transmit(self) -> Iterator[memoryview]:
        collectors = self.server.state.collectors
        # Not in a replay of the journal, which may have a later epoch.
        if (collectors.n_used_up == COLLECTIONS).any() and not self.server.state.header.is_restoring:
            e = int(np.argmax(collectors.n_used_up))
            job = self.server.state.jobs[int(self.server.state.collections[e * COLLECTIONS].job)].job
            raise HotlineError(
                f"PS {self.ps}: the collector of job {job} has no sequence numbers of 32 bits left in "
                f"epoch {collectors.epoch[e]}: end this run or session, and start another"
            )
        yield from super().transmit()

    def recover(self, parts: Mapping[str, bytes], journal: Iterable[bytes]) -> int:
        self.server.state.header.is_restoring = 1
        n_notes = super().recover(parts, journal)
        self.server.state.header.is_restoring = 0
        for store in self.stores.values():
            for each in store.by_home:
                each.restore_queues()
        return n_notes


def configure(server: CollectServer, settings: RunSettings) -> None:
    server.collectors.staleness = round(settings.collection.staleness_ms * NS_PER_MS)
    server.collectors.share = settings.collection.share_of_server / (server.header.last_home + 1)


# The type parameter is the type of an address, which differs between sockets and simulation.
AGENTS: Agents[CollectClient, CollectServer, CollectStore, CollectingServer[Any]] = Agents(
    client=CollectClient,
    server=make_server,
    store=CollectStore,
    core=CollectingServer,
    warm_server=warm,
    configure=configure,
)
