from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hotline
from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT, WINDOW
from hosts.sockets import Address
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.script_session import Terms
from switch_bench.processes import thread_cpu_seconds
from tests.harness.loopback import running_rendezvous
from tools.bench.requests import EPOCH, JOB
from tools.bench.servers import parameter_server
from tools.bench.state_machines import batches_of

# The address depends on the process, so that several can run at the same time.
HOST = f"127.88.{os.getpid() % 250 + 1}.1"
SERVER: Address = (HOST, HOTLINE_PORT)


class StepTimes(NamedTuple):
    """Times of a step in µs: wall clock, CPU time of the script's thread and of the library's."""

    wall: float
    script_cpu: float
    library_cpu: float

    @property
    def cpu(self) -> float:
        return self.script_cpu + self.library_cpu


class Script:
    """A training loop of one thread, which pushes and pulls `rows` rows of the only table in each step."""

    def __init__(self, kv: hotline.Worker, rows: int) -> None:
        (table,) = kv.tables.values()
        self._kv, self._batches = kv, batches_of(table.rows, rows)
        self._values = np.random.default_rng(1).normal(size=(rows, table.dim)).astype(np.float32)
        self._out = np.empty_like(self._values)
        self._library_thread = next(
            thread.native_id for thread in threading.enumerate() if thread.name == "hotline"
        )

    def run(self, steps: int) -> StepTimes:
        kv, values, out = self._kv, self._values, self._out
        assert self._library_thread is not None
        library_start_s = thread_cpu_seconds(self._library_thread)
        wall_start_s, script_start_s = time.perf_counter(), time.thread_time()
        for step in range(steps):
            kv.wait(kv.push_pull(self._batches[step % len(self._batches)], values, out))
        wall_s, script_cpu_s = time.perf_counter() - wall_start_s, time.thread_time() - script_start_s
        library_cpu_s = thread_cpu_seconds(self._library_thread) - library_start_s
        return StepTimes(*(seconds / steps * 1e6 for seconds in (wall_s, script_cpu_s, library_cpu_s)))


class _OnePs:
    size, after_death = 1, "end"

    def __init__(self, core: int) -> None:
        self._core, self._stack = core, ExitStack()

    async def begin(self, tables: EmbeddingTables) -> Terms:
        self._stack.enter_context(
            parameter_server(SERVER, tables.space.size, self._core, tables.space.ranges)
        )
        worker = (HOST, addressing.worker_udp_port(JOB))
        return Terms(
            job=JOB, epoch=EPOCH, design="hotset", window=WINDOW, servers=[SERVER], workers=[worker],
            arm="here", seed=1,  # outside a run nothing depends on the arm
        )  # fmt: skip

    async def end(self, pushes: Mapping[str, int] | None) -> None:
        self._stack.close()


@contextmanager
def script(parameters: int, dim: int, rows: int, core: int) -> Iterator[Script]:
    """Run a script with a table of `parameters` values in rows of `dim`, and a PS on `core`."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_rendezvous(Path(folder), cluster=_OnePs(core)) as running,
        hotline.Worker({"table": (parameters // dim, dim)}, connect=running.place) as kv,
    ):
        yield Script(kv, rows)
