"""Use running or local clusters of dask.distributed, whose import is deferred because it takes a second."""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

from pydantic import Field

from foundation.errors import HotlineError
from foundation.settings import Strict

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
_CONNECT_TIMEOUT_S = 10
_CLOSE_TIMEOUT_S = 2


class ClusterError(HotlineError):
    """No cluster answers at an address, or it has no worker."""


CountingCluster: TypeAlias = Annotated[
    str | None,
    Field(
        description="Count updates on the dask.distributed cluster at ADDRESS (tcp://HOST:PORT); it must see "
        "the LOGs."
    ),
]


class Parallelism(Strict):
    """The processes, or the cluster, that simulate in parallel."""

    scheduler: str | None = None
    """Simulate on the dask.distributed cluster at ADDRESS (tcp://HOST:PORT), with Hotline installed."""
    processes: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, le=256)
    """Number of processes that simulate in parallel, without --scheduler. [default: one per CPU]"""


@contextmanager
def cluster_at(scheduler: str) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_CONNECT_TIMEOUT_S)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--scheduler {scheduler}: no dask scheduler answers: {error}") from error
    with client:
        if not count_threads(client):
            raise ClusterError(f"--scheduler {scheduler}: it has no worker; start some with `dask worker`")
        yield client


@contextmanager
def local_cluster(processes: int) -> Iterator[Client]:
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # Without a memory limit: dask would kill a process that needs more than its share.
    cluster: Any = LocalCluster(  # dask has no type hints
        n_workers=processes,
        threads_per_worker=1,
        memory_limit=0,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        env={"DASK_LOGGING__DISTRIBUTED": "critical"},
    )
    client = Client(cluster)
    try:
        yield client
    except BaseException:
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        with suppress(TimeoutError):
            client.close(_CLOSE_TIMEOUT_S)
            cluster.close(_CLOSE_TIMEOUT_S)


def run_in_parallel(
    function: Callable[..., T], tasks: Sequence[tuple[object, ...]], scheduler: str | None, processes: int
) -> Iterator[tuple[int, T]]:
    """Call a function on each task's arguments in parallel; yield (index, result) as tasks complete.

    The first error of a task is raised. `scheduler` is the address of a cluster on whose workers this project
    is installed; None starts at most `processes` processes on this machine.
    """
    with cluster_at(scheduler) if scheduler else local_cluster(min(processes, len(tasks))) as client:
        from distributed import as_completed

        # Earlier tasks have priority, so that no long task runs alone at the end.
        futures = {
            client.submit(function, *task, pure=False, priority=-task_index): task_index
            for task_index, task in enumerate(tasks)
        }
        for future in as_completed(futures):
            result: T = future.result()
            future.release()
            yield futures[future], result


def count_threads(client: Client) -> int:
    return sum(client.nthreads().values())
