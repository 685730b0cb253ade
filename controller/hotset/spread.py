"""The parts of a log's keys, one after the other here, or side by side on a cluster of machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import polars as pl

from controller.dask_cluster import cluster_at, threads_of
from foundation.logs.counts import Counts

T = TypeVar("T")
Progress = Callable[[int, int], None]
_A_WORKER = 4
"""Parts for each thread of the cluster: unlike parts end at unlike times."""


def over_parts(
    counts: Counts, reduce: Callable[[pl.DataFrame], T], scheduler: str | None, progress: Progress
) -> Iterator[T]:
    """What `reduce` makes of each part (`Counts.by_key`), in no order; `progress` is told of parts.

    `scheduler` is the address of a dask.distributed cluster, whose workers see the logs at the same paths
    and have this project; None is this process. Raises `DataError`, and `ClusterError` where none answers.
    """
    if scheduler is None:
        for done, part in enumerate(counts.by_key()):
            progress(done, counts.parts)
            yield reduce(part)
        progress(counts.parts, counts.parts)
        return
    yield from _on_cluster(counts, reduce, scheduler, progress)


def _on_cluster(
    counts: Counts, reduce: Callable[[pl.DataFrame], T], scheduler: str, progress: Progress
) -> Iterator[T]:
    with cluster_at(scheduler) as client:
        from distributed import as_completed

        spread = counts.in_parts(_A_WORKER * threads_of(client))
        futures = client.map(_reduced, range(spread.parts), counts=spread, reduce=reduce, pure=False)
        for done, future in enumerate(as_completed(futures)):
            progress(done, spread.parts)
            result: T = future.result()
            future.release()
            yield result
        progress(spread.parts, spread.parts)


def _reduced(part: int, counts: Counts, reduce: Callable[[pl.DataFrame], T]) -> T:
    return reduce(counts.of_part(part))
