"""Record a script's operations in a run: ledger, logs, and the counters of a block."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foundation.designs.registry import design
from hosts.agent import run_queue_ns, write_when_there_is_room
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.sockets import clock_offset
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.logs import Origin, RpcWriter, WorkerLogs
from hotline_agents.worker.trainer import OperationRecord
from hotline_scripts.kv.calls import Operation

_REPORT_NS = 20_000_000
"""Smallest interval between two reports of steps."""


class RunRecorder:
    """The recorder of one worker in one arm; a step is a push with the pulls since the previous push."""

    def __init__(
        self, terms: Mapping[str, Any], space: KeySpace, max_rows: int, on_steps: Callable[[int], None]
    ) -> None:
        # `terms` is the answer to "join"; `max_rows` is the maximum number of rows of a push.
        job, epoch, parts_folder = terms["job"], terms["epoch"], Path(terms["parts"])
        self._worker, self._job, self._arm = terms["rank"] + 1, job, terms["arm"]
        path = parts_folder / f"ledger-worker-{self._worker}-job-{job}-epoch-{epoch}.bin"
        self._ledger = Ledger(job, epoch, space, max_rows, path, design(terms["design"]).combination)
        self._logs = WorkerLogs(parts_folder, self._worker, clock_offset(), job, write_when_there_is_room)
        self._rpc_writer = RpcWriter(self._logs.write_rpcs)
        self._on_steps, self._last_report_ns = on_steps, 0
        # Until the first block.
        self._origin = Origin(self._worker, job, self._arm, round=-1, load=0.0, measured_from=0)
        self._operations: list[OperationRecord] = []
        self._block_start_ns = 0
        self._first_pull: OperationRecord | None = None
        """The first pull since the last push; `_pull_rpcs` counts the RPCs of all pulls since then."""
        self._pull_rpcs = 0
        self._step_count = self._lane_count = 0
        self._start_cpu_s, self._start_run_queue_ns = 0.0, 0
        self._start_counters: dict[str, int] = {}

    def begin_block(
        self, client: BaseClient, step: int, round: int, load: float, discard_ns: int, discard_steps: int
    ) -> None:
        self._block_start_ns = time.monotonic_ns()
        measurement_start = (self._block_start_ns + discard_ns, step + discard_steps)
        self._origin = Origin(self._worker, self._job, self._arm, round, load, *measurement_start)
        self._operations, self._first_pull, self._pull_rpcs = [], None, 0
        self._step_count = self._lane_count = 0
        self._start_counters = client.counters
        self._rpc_writer.begin(client)
        self._start_cpu_s, self._start_run_queue_ns = time.process_time(), run_queue_ns()

    def end_block(self, client: BaseClient) -> dict[str, object]:
        """End the block and write its logs; return the fields of `experiment.session.BlockResult`."""
        cpu_s = time.process_time() - self._start_cpu_s
        run_queue_wait_ns = run_queue_ns() - self._start_run_queue_ns
        self._rpc_writer.end(client, self._origin)
        self._logs.write_operations(self._operations, self._origin)
        return {
            "steps": self._step_count,
            "max_lateness_ns": 0,
            "loss": None,
            "updates_sent": self._lane_count,
            "cpu_s": cpu_s,
            "runqueue_ns": run_queue_wait_ns,
            "pid": os.getpid(),
            **{name: count - self._start_counters[name] for name, count in client.counters.items()},
        }

    @property
    def dropped_rows(self) -> int:
        return self._rpc_writer.dropped

    def close(self) -> None:
        self._rpc_writer.close()

    def begin_push(self, positions: NDArray[np.int64], deltas: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Record that a push of these parameters [n] begins; return flags [n] to set once answered."""
        return self._ledger.open(positions, deltas)

    def end_push(self) -> None:
        self._ledger.close()

    def swap_log(self, client: BaseClient) -> None:
        # The client gets an empty log of RPCs, while another thread writes the full one.
        self._rpc_writer.swap(client, self._origin)

    def record_operation(
        self, op: str, operation: Operation, iteration: int, start_ns: int, rpcs: int
    ) -> None:
        """Record that all pushes, or all pulls, of an operation have ended now."""
        # A call submitted before the block has waited for its begin; that wait is not latency.
        scheduled_ns = max(operation.submitted_ns, self._block_start_ns)
        end_ns = time.monotonic_ns()
        record = OperationRecord(iteration, op, scheduled_ns, start_ns, end_ns, rpcs)
        self._operations.append(record)
        if not operation.is_training:
            return
        if op == "pull":
            self._first_pull = self._first_pull or record
            self._pull_rpcs += rpcs
        else:
            self._end_step(record, len(operation.positions))

    def _end_step(self, push: OperationRecord, lanes: int) -> None:
        first_record, rpcs = self._first_pull or push, self._pull_rpcs + push.rpcs
        self._operations.append(
            OperationRecord(
                push.iteration, "step", first_record.scheduled, first_record.start, push.end, rpcs
            )
        )
        self._first_pull, self._pull_rpcs = None, 0
        self._step_count += 1
        self._lane_count += lanes
        if push.end - self._last_report_ns >= _REPORT_NS:
            self._last_report_ns = push.end
            self._on_steps(self._step_count)
