from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from foundation.protocol.codec import Caller
from hosts.agent import Commands, SignalPipe
from hosts.keys import KeySpace
from hosts.sockets import Address, clock_offset
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.udp import make_udp
from hotline_agents.worker.compiled_loop import operate
from hotline_agents.worker.job_socket import JobSocket, LoopContext
from hotline_agents.worker.logs import Origin, RpcWriter, WorkerLogs
from switch_bench.processes import cpu_seconds
from tools.bench.requests import EPOCH, JOB
from tools.bench.state_machines import batches_of

_WORKER = 1000
"""A worker number that no other caller uses."""


class Cost(NamedTuple):
    """CPU time of an RPC, µs: of the worker's loop, and of the thread that writes its log."""

    loop: float
    log: float


class Stepper:
    """Pulls and pushes `lanes` of the parameters in each step. It uses a `JobSocket` as a `Trainer` does."""

    def __init__(self, client: HotsetClient, job_socket: JobSocket, writer: RpcWriter, batches: Any) -> None:
        self._client = client
        self._job_socket = job_socket
        self._writer = writer
        self._batches = batches
        self._deltas = np.ones(batches.shape[1], np.uint32)
        self._answered = np.zeros(batches.shape[1], np.bool_)
        self._operations_begun = self._operation_count = self._rpcs = 0

    @property
    def finished(self) -> bool:
        return self._operations_begun == self._operation_count and self._client.idle

    def deadline(self) -> int | None:
        return 0 if self._client.idle else self._client.deadline()  # 0: wake at once

    def wake(self, now: int) -> None:
        client = self._client
        client.wake(now)
        if not client.idle or self.finished:
            return
        step, is_push = divmod(self._operations_begun, 2)
        keys = self._batches[step % len(self._batches)]
        if is_push:
            client.push(step, keys, self._deltas, self._answered)
        else:
            client.pull(step, keys)
        self._operations_begun += 1
        self._rpcs += client.rpcs_of_operation

    def run(self, steps: int) -> Cost:
        client, writer = self._client, self._writer
        origin = Origin(_WORKER, JOB, "baseline", round=0, load=0.0, measured_from=0)
        self._operations_begun, self._operation_count, self._rpcs = 0, 2 * steps, 0
        writer.begin(client)
        # `cpu_seconds` leaves out this thread, so it is the CPU time of the writer's thread.
        process_start_s, thread_start_s = cpu_seconds(os.getpid()), time.thread_time()
        try:
            self._job_socket.run(self, client, lambda: None, lambda: writer.swap(client, origin))
        finally:
            loop_s = time.thread_time() - thread_start_s
            writer.end(client, origin)
        process_s = cpu_seconds(os.getpid()) - process_start_s
        return Cost(loop_s / self._rpcs * 1e6, process_s / self._rpcs * 1e6)


@contextmanager
def stepping(
    sock: socket.socket, server: Address, parameters: int, lanes: int, folder: Path
) -> Iterator[Stepper]:
    """Yield the stepper of a worker whose only PS is at `server`; the worker logs to `folder`."""
    with ExitStack() as stack:
        commands, write_end = os.pipe()  # no command is ever written
        stack.callback(os.close, commands)
        stack.callback(os.close, write_end)
        signals = stack.enter_context(closing(SignalPipe()))
        logs = WorkerLogs(folder, _WORKER, clock_offset())
        writer = stack.enter_context(closing(RpcWriter(logs.write_rpcs)))
        space = KeySpace(parameters)
        client = HotsetClient(
            Caller(JOB, _WORKER, EPOCH), n_ps=1, space=space, clock=time.monotonic_ns, max_keys=lanes
        )
        job_socket = JobSocket(sock, [server], LoopContext(make_udp(), Commands(commands), signals, operate))
        yield Stepper(client, job_socket, writer, batches_of(parameters, lanes))
