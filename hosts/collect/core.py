"""The parameter server of design `collect`: moves, checkpoints, and the restart of collections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hosts.collect.moves import CollectMover
from hosts.collect.state import make_server
from hosts.collect.store import CollectStore
from hosts.hotset.ps.core import OffloadingServer
from hosts.hotset.ps.moves import ReplyTo


class CollectingServer(OffloadingServer[ReplyTo]):
    stores: Mapping[int, CollectStore]
    persisted_arrays = (
        "cells", "collected", "unsettled", "copies", "collectors", "collections", "requests",
    )  # fmt: skip
    make_state = staticmethod(make_server)
    make_store = CollectStore
    make_mover = CollectMover

    def recover(self, parts: Mapping[str, bytes], journal: Iterable[bytes]) -> int:
        header = self.server.state.header
        header.is_restoring = 1
        n_notes = super().recover(parts, journal)
        self.server.state.header.is_restoring = 0
        for store in self.stores.values():
            store.restore_queues()
        return n_notes
