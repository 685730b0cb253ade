"""A cluster of dask.distributed: somebody's by its address, or processes of this machine."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from foundation.errors import HotlineError

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
# Importing it takes a second, which only those wait for who use it.
_PATIENCE_S = 10
_END_S = 2


class ClusterError(HotlineError):
    """There is no cluster at an address, or nobody works in it."""


@contextmanager
def cluster_at(scheduler: str) -> Iterator[Client]:
    """The cluster at an address, tcp://HOST:PORT; raises `ClusterError`."""
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_PATIENCE_S)
    except (OSError, ValueError) as error:
        raise ClusterError(f"--scheduler {scheduler}: no dask scheduler answers: {error}") from error
    with client:
        if not threads_of(client):
            raise ClusterError(f"--scheduler {scheduler}: it has no worker; start some with `dask worker`")
        yield client


@contextmanager
def local_cluster(processes: int) -> Iterator[Client]:
    """So many processes of this machine, one task at a time each; an error, as Ctrl-C, kills them."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # No limit of memory: a process that needs more than its share is not to be killed for it.
    cluster: Any = LocalCluster(  # which has no hints
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
            client.close(_END_S)
            cluster.close(_END_S)


def side_by_side(
    function: Callable[..., T], tasks: Sequence[tuple[object, ...]], scheduler: str | None, processes: int
) -> Iterator[tuple[int, T]]:
    """Number and result of each task, the function's arguments, as they come; its first error is raised.

    `scheduler` is the address of a cluster that has this project; None is so many processes here.
    """
    with cluster_at(scheduler) if scheduler else local_cluster(min(processes, len(tasks))) as client:
        from distributed import as_completed

        # In this order, so that no long one is left to the end alone.
        futures = {
            client.submit(function, *task, pure=False, priority=-number): number
            for number, task in enumerate(tasks)
        }
        for future in as_completed(futures):
            result: T = future.result()
            future.release()
            yield futures[future], result


def threads_of(client: Client) -> int:
    """Tasks that it does at a time."""
    return sum(client.nthreads().values())
