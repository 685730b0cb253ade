"""The logs of a PS: each request of a worker, and the update counts of parameters for the log collector."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foundation.errors import DataError
from foundation.logs import collector
from foundation.logs.backlog import Backlog
from foundation.logs.columns import CONNECTIONS, UPDATES
from foundation.logs.parts import Parts
from hosts.agent import Writing, write_once
from hotline_agents.ps.store import Store

log = logging.getLogger(__name__)

_NS_PER_US = 1000


class PsLogs:
    """The two logs of a PS. `clock_offset` is Unix time minus the agent's monotonic clock, in ns.

    Update counts go to the log collector at `collector`; without one, or if it fails, to parts of the log.
    `writing` decides what to do if the disk is full.
    """

    def __init__(
        self,
        directory: Path,
        ps: int,
        clock_offset: int,
        collector: Path | None = None,
        writing: Writing = write_once,
    ) -> None:
        self._writing = writing
        self._ps = ps
        self._clock_offset = clock_offset
        self._connections = Parts(directory, f"connections-ps-{ps}", CONNECTIONS)
        self._backlog: Backlog[NDArray[np.void]] = Backlog()
        self._updates = Parts(directory, f"updates-ps-{ps}", UPDATES)
        self._collector = collector
        self._n_updates_sent = 0

    @property
    def dropped_rows(self) -> int:
        return self._backlog.dropped

    def write_connections_in_background(self, parts: Sequence[NDArray[np.void]]) -> None:
        self._backlog.take_written()
        for connection_records in parts:
            self._backlog.put(connection_records, self.write_connections)

    def settle(self) -> None:
        self._backlog.settle()

    def close(self) -> None:
        self._backlog.close()

    def write_connections(self, connection_records: NDArray[np.void]) -> None:
        columns = {
            "time_us": (connection_records["arrival"] + self._clock_offset) // _NS_PER_US,
            "ps": self._ps,
            "worker": connection_records["worker"],
            "job": connection_records["job"],
        }
        self._writing(lambda: self._connections.write(columns))

    def send_updates(self, stores: Mapping[int, Store]) -> None:
        rows = self._update_rows(stores)
        updates = int(rows["updates"].sum())
        if updates == self._n_updates_sent:
            return
        if not self._send_to_collector(rows):
            self._writing(lambda: self._updates.write({name: rows[name] for name in UPDATES}))
        self._n_updates_sent = updates

    def _send_to_collector(self, rows: NDArray[np.void]) -> bool:
        if self._collector is None:
            return False
        try:
            collector.send(rows, self._collector)
        except DataError as error:
            log.warning("%s; the update counts of PS %d are written to its own log", error, self._ps)
            return False
        return True

    def _update_rows(self, stores: Mapping[int, Store]) -> NDArray[np.void]:
        row_arrays = []
        for job, store in stores.items():
            contents = store.contents()
            is_updated = contents.updates > 0
            rows = np.empty(np.count_nonzero(is_updated), collector.ROW)
            rows["job"], rows["ps"] = job, self._ps
            rows["key"], rows["updates"] = contents.keys[is_updated], contents.updates[is_updated]
            row_arrays.append(rows)
        return np.concatenate(row_arrays)
