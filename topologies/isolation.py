"""Move other threads off the agents' CPUs during the measurement; `AFFINITY_FILE` has their previous CPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from foundation.logs.parts import write_text
from topologies.disturbance import list_kernel_threads

AFFINITY_FILE = Path("/run/hotline.affinity")
"""JSON: kernel thread -> its CPUs before the run."""
_MAX_IDLE_SHARE = 0.05  # share of a process's CPU time below which a thread does not belong to its data path


def find_idle_threads(cpu_ns_before: Mapping[int, int], cpu_ns_after: Mapping[int, int]) -> list[int]:
    """Return the threads with under 5 % of a process's CPU time between readings; [] if it used none."""
    used_ns = {thread: ns - cpu_ns_before.get(thread, 0) for thread, ns in cpu_ns_after.items()}
    total = sum(used_ns.values())
    return [thread for thread, ns in used_ns.items() if ns < _MAX_IDLE_SHARE * total]


@contextmanager
def isolate(cpu: int | None, threads: Iterable[int] = (), file: Path = AFFINITY_FILE) -> Iterator[int]:
    """Move this process, `threads` and unbound kernel threads to `cpu` and back; yield how many."""
    if cpu is None:
        yield 0
        return
    own_threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    user_affinities = _read_affinities([*own_threads, *threads])
    kernel_affinities = {
        thread: cpus for thread, cpus in _read_affinities(list_kernel_threads()).items() if len(cpus) > 1
    }
    write_text(file, json.dumps({thread: sorted(cpus) for thread, cpus in kernel_affinities.items()}))
    try:
        yield sum(_set_affinity(thread, {cpu}) for thread in (*user_affinities, *kernel_affinities))
    finally:
        for thread, cpus in user_affinities.items():
            _set_affinity(thread, cpus)
        restore_affinities(file)


def restore_affinities(file: Path = AFFINITY_FILE) -> None:
    try:
        affinities: dict[str, list[int]] = json.loads(file.read_text())
    except (OSError, ValueError):
        return
    for thread, cpus in affinities.items():
        _set_affinity(int(thread), cpus)
    file.unlink(missing_ok=True)


def _read_affinities(threads: Iterable[int]) -> dict[int, set[int]]:
    affinities = {}
    for thread in threads:
        with suppress(OSError):  # the thread has just ended
            affinities[thread] = set(os.sched_getaffinity(thread))
    return affinities


def _set_affinity(thread: int, cpus: Iterable[int]) -> bool:
    try:
        os.sched_setaffinity(thread, cpus)
    except OSError:
        return False
    return True
