"""A dask.distributed cluster of local processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from switch_harness.waiting import PATIENCE_S, wait_for


@contextmanager
def running(module: str, *arguments: str) -> Iterator[None]:
    command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *arguments]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2]) as process:
        try:
            yield
        finally:
            process.terminate()


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler."""
    file = folder / "scheduler.json"
    arguments = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
    with running("dask_scheduler", *arguments):
        # It is there before it is written.
        wait_for(lambda: file.exists() and file.read_text().rstrip().endswith("}"))
        address: str = json.loads(file.read_text())["address"]
        yield address


@contextmanager
def cluster_of(workers: int, folder: Path) -> Iterator[str]:
    """Yield the address of a cluster with this many worker processes."""
    from distributed import Client  # takes a second, in each process that collects tests

    with scheduler(folder) as address, ExitStack() as stack:
        for name in range(workers):
            local = ["--name", f"{name}", "--nthreads", "1", "--local-directory", str(folder), "--no-nanny"]
            stack.enter_context(running("dask_worker", address, *local))
        with Client(address) as client:
            client.wait_for_workers(workers, timeout=PATIENCE_S)
        yield address
