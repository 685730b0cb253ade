"""What else runs during the measurement, out of the way: runner, gRPC threads of the switch, kernel threads.

Only with a CPU left over for them. Threads of the kernel that are bound to their CPU stay there. Which CPUs
the others had is kept in a file, so that the next run, or the cleanup, gives them back if this one is
killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from foundation.logs.parts import write_text
from topologies.disturbance import kernel_threads

KEPT = Path("/run/hotline.affinity")
"""Thread of the kernel -> its CPUs before."""
_QUIET = 0.05
"""Share of a process's CPU time below which a thread is not of its data path."""


def cpu_ns(pid: int, proc: Path = Path("/proc")) -> dict[int, int]:
    """CPU time of each thread of a process (proc(5), schedstat); none of one that has ended."""
    found = {}
    with suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            with suppress(OSError):
                found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return found


def quiet_threads(before: Mapping[int, int], after: Mapping[int, int]) -> list[int]:
    """Threads that did next to nothing of what the process did in between; none of one that did nothing."""
    added = {thread: ns - before.get(thread, 0) for thread, ns in after.items()}
    total = sum(added.values())
    return [thread for thread, ns in added.items() if ns < _QUIET * total]


@contextmanager
def isolated(cpu: int | None, threads: Iterable[int] = (), kept: Path = KEPT) -> Iterator[int]:
    """Have this process, other threads and the kernel's unbound ones on one CPU for a while; how many moved.

    Without a CPU nothing happens.
    """
    if cpu is None:
        yield 0
        return
    own = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    ours = _affinities([*own, *threads])
    kernels = {thread: cpus for thread, cpus in _affinities(kernel_threads()).items() if len(cpus) > 1}
    write_text(kept, json.dumps({thread: sorted(cpus) for thread, cpus in kernels.items()}))
    try:
        yield sum(_move(thread, {cpu}) for thread in (*ours, *kernels))
    finally:
        for thread, cpus in ours.items():
            _move(thread, cpus)
        give_back(kept)


def give_back(kept: Path = KEPT) -> None:
    """Let the kernel's threads run where they did before."""
    try:
        before: dict[str, list[int]] = json.loads(kept.read_text())
    except (OSError, ValueError):
        return
    for thread, cpus in before.items():
        _move(int(thread), cpus)
    kept.unlink(missing_ok=True)


def _affinities(threads: Iterable[int]) -> dict[int, set[int]]:
    found = {}
    for thread in threads:
        with suppress(OSError):  # it has just ended
            found[thread] = set(os.sched_getaffinity(thread))
    return found


def _move(thread: int, cpus: Iterable[int]) -> bool:
    """Whether it could be moved: some threads of the kernel may not."""
    try:
        os.sched_setaffinity(thread, cpus)
    except OSError:
        return False
    return True
