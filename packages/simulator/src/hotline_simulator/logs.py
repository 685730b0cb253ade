"""Logs of a simulated run: the columns of real agents' logs, written for all workers at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.columns import OPERATIONS
from foundation.logs.rpc_row import ROW, RpcRow
from hotline_agents.ps.logs import PsLogs
from hotline_agents.worker.logs import Origin, WorkerLogs
from hotline_agents.worker.trainer import OperationRecord
from hotline_simulator.world import SimulatedNetwork
from nativekit.records import Records

_UNIX_MINUS_VIRTUAL_NS = 0
"""Offset added to times. Logs have virtual time, so they are the same whenever a run is simulated."""
_ALL_WORKERS = 0  # number of the worker in the name of a file for all workers


class BlockLog:
    def __init__(self, network: SimulatedNetwork) -> None:
        self._network = network
        self._rows: list[tuple[int, Records[RpcRow]]] = []

    def take(self, a: int) -> None:  # agents are numbered workers first, then servers
        if a < len(self._network.clients):
            self._rows.append((a + 1, self._network.clients[a].take_records()))
        else:
            self._network.drain_log(a)

    def all_rows(self) -> tuple[NDArray[np.void], NDArray[np.int64]]:
        for w in range(len(self._network.clients)):
            self.take(w)
        rows = np.concatenate([np.zeros(0, ROW), *(rows for _, rows in self._rows)])
        return rows, np.concatenate([np.full(len(rows), number) for number, rows in self._rows])


class SimulatedLogs:
    """Logs in the folder `parts`; if they are not wanted, RPCs are counted, and no block is written."""

    def __init__(self, parts: Path, servers: int, is_wanted: bool = True) -> None:
        self.is_wanted = is_wanted
        self._workers = WorkerLogs(parts, _ALL_WORKERS, _UNIX_MINUS_VIRTUAL_NS)
        self._servers = [PsLogs(parts, ps, _UNIX_MINUS_VIRTUAL_NS) for ps in range(servers)]
        self._parts = parts
        self._read_files: set[Path] = set()
        self.rpcs = 0

    def write(
        self,
        block: BlockLog,
        origin: Origin,
        measured_from: Sequence[int],
        operations: Sequence[Sequence[OperationRecord]],
    ) -> None:
        """Write a block's RPCs and operations; worker w is measured from `measured_from[w]` ns on."""
        first_measured = np.array(measured_from)
        rows, worker = block.all_rows()
        self.rpcs += len(rows)
        if not self.is_wanted:
            return
        self._workers.write_rpcs(rows, _origin_of_rows(origin, worker, first_measured))
        worker_numbers = np.arange(1, len(operations) + 1)
        worker = np.repeat(worker_numbers, [len(worker_operations) for worker_operations in operations])
        records = [record for worker_operations in operations for record in worker_operations]
        self._workers.write_operations(records, _origin_of_rows(origin, worker, first_measured))

    def new_operations(self) -> pl.DataFrame:
        files = set(self._parts.glob("operations-worker-*.parquet")) - self._read_files
        self._read_files |= files
        return pl.concat([pl.DataFrame(schema=OPERATIONS), *map(pl.read_parquet, sorted(files))])

    def write_servers(self, networks: Sequence[SimulatedNetwork]) -> None:
        for ps, log in enumerate(self._servers):
            for network in networks:
                network.collect_connection_records(ps)
                for connection_records in network.pop_connection_records(ps):
                    log.write_connections(connection_records)
            # Without a log collector, this writes the update counts to a file.
            log.send_updates({network.arm.job: network.stores[ps] for network in networks})


def _origin_of_rows(origin: Origin, worker: NDArray[np.int64], measured_from: NDArray[np.int64]) -> Origin:
    return replace(origin, worker=worker, measured_from=measured_from[worker - 1])
