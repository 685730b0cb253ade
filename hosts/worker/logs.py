"""What a worker logs: one row an RPC ([DDL]'s log line) and one an operation, as Parquet parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hosts.worker.client import RpcRecord
from hosts.worker.trainer import OperationRecord
from logs.parts import Parts
from protocol.header import Op

ARMS = ("profile", "neither", "proxy", "hot", "both")
OPS = tuple(op.name.lower() for op in (Op.PULL, Op.PUSH, Op.EMPTY))
CLASSES = ("all_hit", "mixed", "cold")
_US = 1000


@dataclass(frozen=True, slots=True)
class Origin:
    """What the rows of one block have in common. Times before `measured_from` (ns) are not to be counted."""

    worker: int
    job: int
    arm: str
    round: int
    load: float
    measured_from: int


class WorkerLogs:
    """The two logs of a worker. `clock_offset`: Unix time minus the agent's monotonic clock, ns."""

    def __init__(self, directory: Path, worker: int, clock_offset: int) -> None:
        self._offset = clock_offset
        self._rpcs = Parts(directory, f"rpc-worker-{worker}")
        self._operations = Parts(directory, f"operations-worker-{worker}")

    def write_rpcs(self, records: Sequence[RpcRecord], origin: Origin) -> None:
        """Write a block's RPCs as a part; sizes are UDP payloads in bytes."""
        if not records:
            return
        # N_tx = t1 - t0 - PS_queue - PS_proc, and the total is what the worker's clock saw.
        columns = dict(zip(RpcRecord._fields, np.array(records, dtype=np.int64).T, strict=True))
        in_net = columns["arrival"] - columns["t0"]
        at_worker = columns["w_proc"] + columns["w_queue"]
        served, lanes = columns["served"], columns["lanes"]
        rpc_class = np.select([served == 0, served == lanes], ["cold", "all_hit"], "mixed")
        op = np.array(("", *OPS))[columns["op"]]
        self._rpcs.write(
            pl.DataFrame(
                {
                    "worker": _constant(origin.worker, pl.UInt16, lanes),
                    "ps": pl.Series(columns["ps"], dtype=pl.UInt16),
                    **_origin(origin, lanes),
                    "iteration": pl.Series(columns["iteration"], dtype=pl.UInt32),
                    "op": pl.Series(op, dtype=pl.Enum(OPS)),
                    "class": pl.Series(rpc_class, dtype=pl.Enum(CLASSES)),
                    "t_send_us": (columns["t0"] + self._offset) // _US,
                    "request_bytes": pl.Series(columns["request_bytes"], dtype=pl.UInt16),
                    "response_bytes": pl.Series(columns["response_bytes"], dtype=pl.UInt16),
                    "w_proc_us": _microseconds(columns["w_proc"]),
                    "w_queue_us": _microseconds(columns["w_queue"]),
                    "ps_proc_us": _microseconds(columns["ps_proc"]),
                    "ps_queue_us": _microseconds(columns["ps_queue"]),
                    "n_tx_us": _microseconds(in_net - columns["ps_queue"] - columns["ps_proc"]),
                    "switch_us": columns["residence_us"].astype(np.float32),
                    "latency_us": _microseconds(in_net + at_worker),
                    "lanes": pl.Series(lanes, dtype=pl.UInt8),
                    "served": pl.Series(served, dtype=pl.UInt8),
                    "attempts": pl.Series(np.minimum(columns["attempts"], 255), dtype=pl.UInt8),
                    "measured": columns["t0"] >= origin.measured_from,
                }
            )
        )

    def write_operations(self, records: Sequence[OperationRecord], origin: Origin) -> None:
        """Write a block's operations as a part."""
        if not records:
            return
        rows = pl.DataFrame(records, schema=list(OperationRecord._fields), orient="row")
        scheduled, start, end = (rows[name].to_numpy() for name in ("scheduled", "start", "end"))
        self._operations.write(
            pl.DataFrame(
                {
                    "worker": _constant(origin.worker, pl.UInt16, scheduled),
                    **_origin(origin, scheduled),
                    "iteration": rows["iteration"].cast(pl.UInt32),
                    "op": rows["op"].cast(pl.Enum(["pull", "push", "step"])),
                    "scheduled_us": (scheduled + self._offset) // _US,
                    "start_us": (start + self._offset) // _US,
                    "end_us": (end + self._offset) // _US,
                    "latency_us": _microseconds(end - scheduled),
                    "rpcs": rows["rpcs"].cast(pl.UInt16),
                    "measured": scheduled >= origin.measured_from,
                }
            )
        )


def _origin(origin: Origin, like: NDArray[np.int64]) -> dict[str, pl.Series]:
    return {
        "job": _constant(origin.job, pl.UInt16, like),
        "arm": _constant(origin.arm, pl.Enum(ARMS), like),
        "round": _constant(origin.round, pl.Int32, like),
        "load": _constant(origin.load, pl.Float32, like),
    }


def _constant(
    value: int | float | str,
    dtype: pl.DataType | type[pl.DataType],
    like: NDArray[np.int64],
) -> pl.Series:
    return pl.repeat(value, len(like), dtype=dtype, eager=True)


def _microseconds(
    nanoseconds: NDArray[np.int64],
) -> NDArray[np.float32]:
    return (nanoseconds / _US).astype(np.float32)
