"""Slow processes, for tests of waits."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextmanager
def slowed(pids: Callable[[], Iterable[int]], factor: int, period_s: float = 0.1) -> Iterator[None]:
    """Let processes run for one part in `factor` of the time during the block, by SIGSTOP and SIGCONT."""
    end = threading.Event()

    def slow() -> None:
        while not end.wait(period_s / factor):
            stopped = _signal_all(pids(), signal.SIGSTOP)
            end.wait(period_s - period_s / factor)
            _signal_all(stopped, signal.SIGCONT)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _signal_all(pids: Iterable[int], signal_number: signal.Signals) -> list[int]:
    found = list(pids)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
    return found


@contextmanager
def limited_cpu(cores: float) -> Iterator[list[str]]:
    """Yield the beginning of a command line whose processes may use so many cores together (root)."""
    quota_us = int(cores * _PERIOD_US)
    if (_CGROUPS / "cgroup.controllers").exists():
        (_CGROUPS / "cgroup.subtree_control").write_text("+cpu")
        parent, limits = _CGROUPS, {"cpu.max": f"{quota_us} {_PERIOD_US}"}
    else:  # version 1
        parent, limits = (
            _CGROUPS / "cpu",
            {"cpu.cfs_period_us": f"{_PERIOD_US}", "cpu.cfs_quota_us": f"{quota_us}"},
        )
    group = parent / f"hotline-{uuid.uuid4()}"
    group.mkdir()
    try:
        for name, value in limits.items():
            (group / name).write_text(value)
        enter = f'echo $$ > {shlex.quote(str(group / "cgroup.procs"))} && exec "$@"'
        yield ["sh", "-c", enter, "sh"]
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (parent / "cgroup.procs").write_text(pid)
        group.rmdir()
