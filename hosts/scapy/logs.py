"""The logs of worker and server as Parquet files; a row of an RPC has the paper's five metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from foundation.logs.columns import CALLS, CONNECTIONS, OPERATIONS, RPC, UPDATES
from foundation.logs.parts import Parts
from hosts.agent import write_when_there_is_room
from hosts.scapy.server import ArrivedRequest
from hosts.scapy.worker import AnsweredRpc

_US = 1_000  # a µs, in ns
_MAX_ATTEMPTS = 255  # of the column's type


class LoggedBlock(NamedTuple):
    """The fields that all rows of a block share; times are in ns.

    Rows count as measured from `measured_from` on, or from step `measured_step` on.
    """

    worker: int
    job: int
    arm: str
    round: int
    load: float
    measured_from: int
    measured_step: int

    def columns(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("worker", "job", "arm", "round", "load")}

    def measures(self, start: int, step: int) -> bool:
        return start >= self.measured_from or step >= self.measured_step


class LoggedOperation(NamedTuple):
    """A pull, a push, or a step from the pull's due time to the push's end; times in ns."""

    iteration: int
    op: str
    scheduled: int
    start: int
    end: int
    rpcs: int


class WorkerLog:
    """`clock_offset` is Unix time minus the clock of agents, in ns."""

    def __init__(self, directory: Path, worker: int, clock_offset: int) -> None:
        self._clock_offset = clock_offset
        self._rpcs = Parts(directory, f"rpc-worker-{worker}", RPC)
        self._operations = Parts(directory, f"operations-worker-{worker}", OPERATIONS)

    def write(
        self, rpcs: Sequence[AnsweredRpc], operations: Sequence[LoggedOperation], block: LoggedBlock
    ) -> None:
        rpc_rows = [self._rpc_row(rpc, block) for rpc in rpcs]
        operation_rows = [self._operation_row(each, block) for each in operations]
        write_when_there_is_room(lambda: _write(self._rpcs, rpc_rows))
        write_when_there_is_room(lambda: _write(self._operations, operation_rows))

    def _rpc_row(self, rpc: AnsweredRpc, block: LoggedBlock) -> dict[str, object]:
        # W_queue and W_proc are the worker's times, PS_queue and PS_proc the server's. The rest of the time
        # from sending to arrival is the network's and the switch's: N_tx. Their sum is the latency.
        network_ns = rpc.arrival - rpc.t0
        return {
            **block.columns(),
            "ps": rpc.ps,
            "iteration": rpc.iteration,
            "op": CALLS[rpc.op - 1],
            "class": {0: "cold", rpc.lanes: "all_hit"}.get(rpc.served, "mixed") if rpc.lanes else "cold",
            "t_send_us": (rpc.t0 + self._clock_offset) // _US,
            "request_bytes": rpc.request_bytes,
            "response_bytes": rpc.response_bytes,
            "w_proc_us": rpc.w_proc / _US,
            "w_queue_us": rpc.w_queue / _US,
            "ps_proc_us": rpc.ps_proc / _US,
            "ps_queue_us": rpc.ps_queue / _US,
            "n_tx_us": (network_ns - rpc.ps_queue - rpc.ps_proc) / _US,
            "switch_us": rpc.residence_us,
            "latency_us": (network_ns + rpc.w_queue + rpc.w_proc) / _US,
            "lanes": rpc.lanes,
            "served": rpc.served,
            "attempts": min(rpc.attempts, _MAX_ATTEMPTS),
            "measured": block.measures(rpc.t0, rpc.iteration),
        }

    def _operation_row(self, each: LoggedOperation, block: LoggedBlock) -> dict[str, object]:
        return {
            **block.columns(),
            "iteration": each.iteration,
            "op": each.op,
            "scheduled_us": (each.scheduled + self._clock_offset) // _US,
            "start_us": (each.start + self._clock_offset) // _US,
            "end_us": (each.end + self._clock_offset) // _US,
            "latency_us": (each.end - each.scheduled) / _US,
            "rpcs": each.rpcs,
            "measured": block.measures(each.scheduled, each.iteration),
        }


class ServerLog:
    def __init__(self, directory: Path, ps: int, clock_offset: int) -> None:
        self._ps, self._clock_offset = ps, clock_offset
        self._connections = Parts(directory, f"connections-ps-{ps}", CONNECTIONS)
        self._updates = Parts(directory, f"updates-ps-{ps}", UPDATES)

    def write_connections(self, connections: Iterable[ArrivedRequest]) -> None:
        rows: list[dict[str, object]] = [
            {
                "time_us": (each.arrival + self._clock_offset) // _US,
                "ps": self._ps,
                "worker": each.worker,
                "job": each.job,
            }
            for each in connections
        ]
        write_when_there_is_room(lambda: _write(self._connections, rows))

    def write_updates(self, rows: Sequence[tuple[int, int, int]]) -> None:
        """Write the numbers of updates by job and key; rows are (job, key, updates)."""
        named: list[dict[str, object]] = [
            {"job": job, "ps": self._ps, "key": key, "updates": n} for job, key, n in rows
        ]
        write_when_there_is_room(lambda: _write(self._updates, named))


def _write(parts: Parts, rows: Sequence[dict[str, object]]) -> None:
    if rows:
        parts.write({name: [row[name] for row in rows] for name in rows[0]})
