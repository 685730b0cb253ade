"""What a PS logs: every contact of a worker, and the updates of each parameter, as Parquet parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

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
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: list[Future[None]] = []
        self._updates = Parts(directory, f"updates-ps-{ps}", UPDATES)

    def write_connections_beside(self, parts: Sequence[Any]) -> None:
        """Write contacts in another thread; `settle` waits for it."""
        self._writing += [self._thread.submit(self.write_connections, contacts) for contacts in parts]

    def settle(self) -> None:
        """Wait until all is written; raises what has failed."""
        writing, self._writing = self._writing, []
        wait(writing)
        for written in writing:
            written.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def write_connections(self, contacts: Any) -> None:
        """Write contacts [n] (`hosts.ps.state.CONTACT`)."""
        self._connections.write(
            {
                "time_us": (contacts["arrival"] + self._offset) // _US,
                "ps": self._ps,
                "worker": contacts["worker"],
                "job": contacts["job"],
            }
        )

    def write_updates(self, stores: Mapping[int, Store]) -> None:
        """Write all parameters' counts so far: the last part of a PS holds everything."""
        jobs, keys, updates = [], [], []
        for job, store in stores.items():
            held = store.held()
            updated = held.updates > 0
            jobs.append(np.full(np.count_nonzero(updated), job))
            keys.append(held.keys[updated])
            updates.append(held.updates[updated])
        self._updates.write(
            {
                "job": np.concatenate(jobs),
                "ps": self._ps,
                "key": np.concatenate(keys),
                "updates": np.concatenate(updates),
            }
        )
