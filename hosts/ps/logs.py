"""What a PS logs: every contact of a worker, and the updates of each parameter, as Parquet parts."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from hosts.ps.store import Store
from logs.parts import Parts

_US = 1000


class PsLogs:
    """The two logs of a PS. `clock_offset`: Unix time minus the agent's monotonic clock, ns."""

    def __init__(self, directory: Path, ps: int, clock_offset: int) -> None:
        self._ps = ps
        self._offset = clock_offset
        self._connections = Parts(directory, f"connections-ps-{ps}")
        self._updates = Parts(directory, f"updates-ps-{ps}")

    def write_connections(self, contacts: array[int]) -> None:
        """Write the contacts since the last part (`Server.contacts`)."""
        time, worker, job = np.array(contacts, dtype=np.int64).reshape(-1, 3).T
        self._connections.write(
            pl.DataFrame(
                {
                    "time_us": (time + self._offset) // _US,
                    "ps": pl.repeat(self._ps, len(time), dtype=pl.UInt16, eager=True),
                    "worker": pl.Series(worker, dtype=pl.UInt16),
                    "job": pl.Series(job, dtype=pl.UInt16),
                }
            )
        )

    def write_updates(self, stores: Mapping[int, Store]) -> None:
        """Write all parameters' counts so far: the last part of a PS holds everything."""
        tables = []
        for job, store in stores.items():
            at = np.flatnonzero(store.updates[:-1])
            tables.append(
                pl.DataFrame(
                    {
                        "job": pl.repeat(job, len(at), dtype=pl.UInt16, eager=True),
                        "ps": pl.repeat(self._ps, len(at), dtype=pl.UInt16, eager=True),
                        "key": store.space.keys(at),
                        "updates": store.updates[at].astype(np.uint64),
                    }
                )
            )
        self._updates.write(pl.concat(tables))
