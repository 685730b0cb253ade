"""A cluster of dask.distributed: somebody's by its address, or processes of this machine."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from common.errors import HotlineError

if TYPE_CHECKING:
    from distributed import Client

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
    import dask
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    # No limit of memory: a process that needs more than its share is not to be killed for it.
    with dask.config.set({"logging.distributed": "critical"}):
        cluster: Any = LocalCluster(
            n_workers=processes, threads_per_worker=1, memory_limit=0, scheduler_kwargs={"dashboard": False}
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


def threads_of(client: Client) -> int:
    """Tasks that it does at a time."""
    return sum(client.nthreads().values())
