"""Assignment of cores, and CPU time and memory of processes."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_native_id
from typing import NamedTuple

from switch_bench.errors import BenchError


class Cores(NamedTuple):
    generator: int
    softswitch: int
    bmv2: tuple[int, ...]


def choose_cores() -> Cores:
    """Use the first two cores that this process may run on; BMv2 has many threads and gets all."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("the bench needs two cores: one for the generator, one for the switch")
    return Cores(cores[0], cores[1], tuple(cores))


@contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Pin this thread to cores during the block; threads and processes that it starts inherit them."""
    previous_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, previous_cores)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time so far of all threads of a process but this one."""
    tasks = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(thread_cpu_seconds(task) for task in tasks if task != get_native_id())


def thread_cpu_seconds(thread: int) -> float:
    """Return the CPU time so far of a thread of any process, by its native id."""
    return int(Path(f"/proc/{thread}/schedstat").read_text().split()[0]) / 1e9


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
