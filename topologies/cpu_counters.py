"""Disturbance of a run: the kernel's counters of CPU time that it did not get, and the isolation of its CPUs.

The counters are of steal, other processes, pressure and the Unix clock. During the measurement other threads
are moved off the agents' CPUs; `AFFINITY_FILE` has their previous CPUs.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from experiment.session import MachineCounters
from foundation.logs.parts import write_text
from hosts.sockets import clock_offset

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KTHREADD = 2  # parent of all kernel threads, whose CPU time counts as the run's
_STEAL_FIELD = 7  # of a line of /proc/stat, after the name of the CPU
# Fields of /proc/PID/stat after the name: the parent, and utime, stime, cutime and cstime (proc(5)).
_PARENT_FIELD, _TICKS_FIELDS = 1, slice(11, 15)
AFFINITY_FILE = Path("/run/hotline.affinity")
"""JSON: kernel thread -> its CPUs before the run."""
_MAX_IDLE_SHARE = 0.05  # share of a process's CPU time below which a thread does not belong to its data path


_UNIX_OFFSET_NS = clock_offset()  # at the run's start, before its agents measure theirs


class ProcessTimes(NamedTuple):
    pid: int
    parent: int
    ticks: int  # CPU time of the process and of the children that it has waited for, in clock ticks


def read_run_time_ms() -> float:
    """Return the time as the logs of a run have it (`MachineCounters.at_ms`)."""
    return (time.monotonic_ns() + _UNIX_OFFSET_NS) / 1e6


def read_contention(
    proc: Path = Path("/proc"), own_pids: Collection[int] = (), cpus: Iterable[int] | None = None
) -> MachineCounters:
    """Read the counters. `own_pids` are the run's first processes (default: this one), `cpus` its CPUs."""
    run_cpus = os.sched_getaffinity(0) if cpus is None else set(cpus)
    return MachineCounters(
        at_ms=read_run_time_ms(),
        unix_offset_ms=clock_offset() / 1e6,
        steal_ms=_read_steal_ms((proc / "stat").read_text(), run_cpus),
        others_cpu_ms=sum_other_ticks(_read_processes(proc), own_pids or (os.getpid(),)) * 1e3 / _TICKS_PER_S,
        pressure_ms=_read_pressure_ms(proc / "pressure" / "cpu"),
    )


def sum_other_ticks(processes: Iterable[ProcessTimes], own_pids: Collection[int]) -> int:
    """Return the CPU time, in ticks, of processes that descend neither from `own_pids` nor from kthreadd."""
    process_by_pid = {each.pid: each for each in processes}

    def is_own(pid: int) -> bool:
        while pid in process_by_pid:
            if pid == _KTHREADD or pid in own_pids:
                return True
            pid = process_by_pid[pid].parent
        return False

    return sum(each.ticks for each in process_by_pid.values() if not is_own(each.pid))


def list_kernel_threads(proc: Path = Path("/proc")) -> list[int]:
    return [each.pid for each in _read_processes(proc) if each.parent == _KTHREADD]


def _read_steal_ms(stat: str, cpus: set[int]) -> float:
    steal_ticks = {
        int(cpu): int(fields.split()[_STEAL_FIELD])
        for cpu, fields in re.findall(r"^cpu(\d+) (.*)$", stat, re.M)
    }
    return sum(ticks for cpu, ticks in steal_ticks.items() if cpu in cpus) * 1e3 / _TICKS_PER_S


def _read_pressure_ms(file: Path) -> float:
    try:
        match = re.search(r"^some .*\btotal=(\d+)", file.read_text(), re.M)  # in µs
    except OSError:  # the kernel has no PSI, or PSI is disabled
        return 0.0
    return int(match[1]) / 1e3 if match else 0.0


def _read_processes(proc: Path) -> Iterator[ProcessTimes]:
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The process name, in parentheses, may contain anything.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield ProcessTimes(int(entry.name), int(fields[_PARENT_FIELD]), sum(map(int, fields[_TICKS_FIELDS])))


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
