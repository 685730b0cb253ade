"""Move other threads off the agents' CPUs during the measurement; `AFFINITY_FILE` has their previous CPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from foundation.logs.parts import write_text
from topologies.disturbance import kernel_threads

AFFINITY_FILE = Path("/run/hotline.affinity")
"""JSON: kernel thread -> its CPUs before the run."""
_QUIET_SHARE = 0.05
"""Share of a process's CPU time below which a thread does not belong to its data path."""


def cpu_ns_by_thread(pid: int, proc: Path = Path("/proc")) -> dict[int, int]:
    """Return the CPU time in ns of each thread of a process (proc(5), schedstat); none after its end."""
    found = {}
    with suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            with suppress(OSError):
                found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return found


def quiet_threads(before: Mapping[int, int], after: Mapping[int, int]) -> list[int]:
    """Return the threads with under 5 % of a process's CPU time between readings; none if it used none."""
    added = {thread: ns - before.get(thread, 0) for thread, ns in after.items()}
    total = sum(added.values())
    return [thread for thread, ns in added.items() if ns < _QUIET_SHARE * total]


@contextmanager
def isolated(cpu: int | None, threads: Iterable[int] = (), file: Path = AFFINITY_FILE) -> Iterator[int]:
    """Move this process, `threads` and unbound kernel threads to `cpu` and back; yield their number."""
    if cpu is None:
        yield 0
        return
    own_threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    own_before = _affinities([*own_threads, *threads])
    kernel_before = {thread: cpus for thread, cpus in _affinities(kernel_threads()).items() if len(cpus) > 1}
    write_text(file, json.dumps({thread: sorted(cpus) for thread, cpus in kernel_before.items()}))
    try:
        yield sum(_move(thread, {cpu}) for thread in (*own_before, *kernel_before))
    finally:
        for thread, cpus in own_before.items():
            _move(thread, cpus)
        restore_affinities(file)


def restore_affinities(file: Path = AFFINITY_FILE) -> None:
    try:
        before: dict[str, list[int]] = json.loads(file.read_text())
    except (OSError, ValueError):
        return
    for thread, cpus in before.items():
        _move(int(thread), cpus)
    file.unlink(missing_ok=True)


def _affinities(threads: Iterable[int]) -> dict[int, set[int]]:
    found = {}
    for thread in threads:
        with suppress(OSError):  # the thread has just ended
            found[thread] = set(os.sched_getaffinity(thread))
    return found


def _move(thread: int, cpus: Iterable[int]) -> bool:
    try:
        os.sched_setaffinity(thread, cpus)
    except OSError:
        return False
    return True
