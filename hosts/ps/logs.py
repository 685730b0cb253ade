"""What a PS logs: every contact of a worker, and the updates of each parameter, as Parquet parts."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hosts.ps.store import Store
from logs.columns import CONNECTIONS, UPDATES
from logs.parts import Parts

_US = 1000


class PsLogs:
    """The two logs of a PS. `clock_offset`: Unix time minus the agent's monotonic clock, ns."""

    def __init__(self, directory: Path, ps: int, clock_offset: int) -> None:
        self._ps = ps
        self._offset = clock_offset
        self._connections = Parts(directory, f"connections-ps-{ps}", CONNECTIONS)
        self._updates = Parts(directory, f"updates-ps-{ps}", UPDATES)

    def write_connections(self, contacts: array[int]) -> None:
        """Write the contacts since the last part (`RpcServer.contacts`)."""
        time, worker, job = np.array(contacts, dtype=np.int64).reshape(-1, 3).T
        self._connections.write(
            {"time_us": (time + self._offset) // _US, "ps": self._ps, "worker": worker, "job": job}
        )

    def write_updates(self, stores: Mapping[int, Store]) -> None:
        """Write all parameters' counts so far: the last part of a PS holds everything."""
        updated = {job: np.flatnonzero(store.updates[:-1]) for job, store in stores.items()}
        self._updates.write(
            {
                "job": np.repeat(list(updated), list(map(len, updated.values()))),
                "ps": self._ps,
                "key": np.concatenate([stores[job].space.keys(at) for job, at in updated.items()]),
                "updates": np.concatenate([stores[job].updates[at] for job, at in updated.items()]),
            }
        )
