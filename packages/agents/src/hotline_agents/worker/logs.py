"""The logs of a worker: a row for each RPC (Pan et al.'s log line) and each operation, as Parquet parts.

During a block, another thread writes full arrays of rows of the log of RPCs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from foundation.logs.backlog import LIMIT, Backlog
from foundation.logs.columns import AFTER_ALL_STEPS, CALLS, CLASSES, OPERATIONS, RPC
from foundation.logs.parts import Parts
from foundation.logs.rpc_row import RpcRow
from hosts.agent import Writing, write_once
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.trainer import OperationRecord
from nativekit.records import Records, records

_NS_PER_US = 1000
_MAX_ATTEMPTS = 255  # of the column's type
_CALL_NAMES, _CLASS_NAMES = pl.Series(CALLS, dtype=RPC["op"]), pl.Series(CLASSES, dtype=RPC["class"])
_CLASS_INDICES, _MIXED = [CLASSES.index("cold"), CLASSES.index("all_hit")], CLASSES.index("mixed")
ROWS = 1 << 16
"""Rows of an array, more than a block of the default run has; they are written when the block ends."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The common columns of the rows of one block.

    Rows count as measured from `measured_from` (ns) on, or from step `measured_step` on. Rows of several
    workers have `worker` and `measured_from` as arrays.
    """

    worker: int | NDArray[np.int64]
    job: int
    arm: str
    round: int
    load: float
    measured_from: int | NDArray[np.int64]
    measured_step: int = AFTER_ALL_STEPS

    def measures(self, start_ns: NDArray[np.int64], step: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return which rows are measured [n], by their start in ns [n] and their step [n]."""
        return (start_ns >= self.measured_from) | (step >= self.measured_step)


class WorkerLogs:
    """The two logs of a worker, or of one `job` of it.

    `clock_offset` is Unix minus monotonic time, in ns; `writing` decides what to do if the disk is full.
    """

    def __init__(
        self,
        directory: Path,
        worker: int,
        clock_offset: int,
        job: int | None = None,
        writing: Writing = write_once,
    ) -> None:
        self._writing = writing
        self._clock_offset = clock_offset
        agent = f"worker-{worker}" if job is None else f"worker-{worker}-job-{job}"
        self._rpcs = Parts(directory, f"rpc-{agent}", RPC)
        self._operations = Parts(directory, f"operations-{agent}", OPERATIONS)

    def write_rpcs(self, records: NDArray[np.void], origin: Origin) -> None:
        """Write RPCs of a block, `ROW` records, as a part; sizes are UDP payloads in bytes."""
        if not len(records):
            return
        # N_tx = t1 - t0 - PS_queue - PS_proc; the latency is measured with the worker's clock alone.
        columns = {name: records[name].astype(np.int64) for name in records.dtype.names or ()}
        network_ns = columns["arrival"] - columns["t0"]
        worker_ns = columns["w_proc"] + columns["w_queue"]
        served, lanes = columns["served"], columns["lanes"]
        unchanged = ("ps", "iteration", "request_bytes", "response_bytes", "lanes", "served")
        durations = ("w_proc", "w_queue", "ps_proc", "ps_queue")
        rows = {
            **_columns(origin),
            **{name: columns[name] for name in unchanged},
            **{f"{name}_us": columns[name] / _NS_PER_US for name in durations},
            "op": _CALL_NAMES.gather(columns["op"] - 1),  # the numbers of `Op` begin at 1
            "class": _CLASS_NAMES.gather(np.select([served == 0, served == lanes], _CLASS_INDICES, _MIXED)),
            "t_send_us": (columns["t0"] + self._clock_offset) // _NS_PER_US,
            "n_tx_us": (network_ns - columns["ps_queue"] - columns["ps_proc"]) / _NS_PER_US,
            "switch_us": columns["residence_us"],
            "latency_us": (network_ns + worker_ns) / _NS_PER_US,
            "attempts": np.minimum(columns["attempts"], _MAX_ATTEMPTS),
            "measured": origin.measures(columns["t0"], columns["iteration"]),
        }
        self._writing(lambda: self._rpcs.write(rows))

    def write_operations(self, records: Sequence[OperationRecord], origin: Origin) -> None:
        if not records:
            return
        columns = dict(zip(OperationRecord._fields, zip(*records, strict=True), strict=True))
        scheduled, start, end = (np.array(columns[name]) for name in ("scheduled", "start", "end"))
        rows = {
            **_columns(origin),
            "iteration": columns["iteration"],
            "op": columns["op"],
            "scheduled_us": (scheduled + self._clock_offset) // _NS_PER_US,
            "start_us": (start + self._clock_offset) // _NS_PER_US,
            "end_us": (end + self._clock_offset) // _NS_PER_US,
            "latency_us": (end - scheduled) / _NS_PER_US,
            "rpcs": columns["rpcs"],
            "measured": origin.measures(scheduled, np.array(columns["iteration"])),
        }
        self._writing(lambda: self._operations.write(rows))


def _columns(origin: Origin) -> dict[str, object]:
    return {name: getattr(origin, name) for name in ("worker", "job", "arm", "round", "load")}


@dataclass(frozen=True, slots=True)
class _RowBatch:
    """Logged rows, the beginning of `array`, which is reused once they are written."""

    rows: Records[RpcRow]
    array: Records[RpcRow]

    def __len__(self) -> int:
        return len(self.rows)


class RpcWriter:
    def __init__(
        self, write: Callable[[NDArray[np.void], Origin], None], rows: int = ROWS, limit: int = LIMIT
    ) -> None:
        self._write = write
        self._rows = rows
        self._spare_arrays = [_allocate(rows), _allocate(rows)]
        self._backlog: Backlog[_RowBatch] = Backlog(limit)

    @property
    def dropped(self) -> int:
        return self._backlog.dropped

    def begin(self, client: BaseClient) -> None:
        client.take_records(self._next_array())

    def swap(self, client: BaseClient, origin: Origin) -> None:
        self._write_rows(client, self._next_array(), origin)

    def end(self, client: BaseClient, origin: Origin) -> None:
        self._write_rows(client, records(0, RpcRow), origin)
        self._recycle(self._backlog.settle())

    def close(self) -> None:
        self._backlog.close()

    def _write_rows(self, client: BaseClient, new_log: Records[RpcRow], origin: Origin) -> None:
        array = client.state.log
        batch = _RowBatch(client.take_records(new_log), array)
        if not self._backlog.put(batch, lambda rows_batch: self._write(rows_batch.rows, origin)):
            self._recycle([batch])

    def _next_array(self) -> Records[RpcRow]:
        self._recycle(self._backlog.take_written())
        # If the writer is slow, more arrays are made, up to the backlog's limit: the worker must not wait.
        return self._spare_arrays.pop() if self._spare_arrays else _allocate(self._rows)

    def _recycle(self, batches: list[_RowBatch]) -> None:
        self._spare_arrays += [batch.array for batch in batches]


def _allocate(rows: int) -> Records[RpcRow]:
    """Return an array whose memory is already mapped."""
    array = records(rows, RpcRow)
    array.view(np.uint8)[:] = 0
    return array
