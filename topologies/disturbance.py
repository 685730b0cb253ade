"""Read the kernel's counters of CPU time that a run did not get: steal, other processes, pressure."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from experiment.session import MachineCounters

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_KTHREADD = 2  # parent of all kernel threads, whose CPU time counts as the run's
_STEAL_FIELD = 7  # of a line of /proc/stat, after the name of the CPU
# Fields of /proc/PID/stat after the name: the parent, and utime, stime, cutime and cstime (proc(5)).
_PARENT_FIELD, _TICKS_FIELDS = 1, slice(11, 15)


class ProcessTimes(NamedTuple):
    pid: int
    parent: int
    ticks: int  # CPU time of the process and of the children that it has waited for, in clock ticks


def read_contention(
    proc: Path = Path("/proc"), own_pid: int | None = None, cpus: Iterable[int] | None = None
) -> MachineCounters:
    """Read the counters. `own_pid` is the pid of the run's first process, `cpus` are the run's CPUs."""
    run_cpus = os.sched_getaffinity(0) if cpus is None else set(cpus)
    return MachineCounters(
        at_ms=time.time_ns() / 1e6,
        steal_ms=_read_steal_ms((proc / "stat").read_text(), run_cpus),
        others_cpu_ms=sum_other_ticks(_read_processes(proc), own_pid or os.getpid()) * 1e3 / _TICKS_PER_S,
        pressure_ms=_read_pressure_ms(proc / "pressure" / "cpu"),
    )


def sum_other_ticks(processes: Iterable[ProcessTimes], own_pid: int) -> int:
    """Return the CPU time, in ticks, of processes that descend neither from `own_pid` nor from kthreadd."""
    process_by_pid = {each.pid: each for each in processes}

    def is_own(pid: int) -> bool:
        while pid in process_by_pid:
            if pid in (own_pid, _KTHREADD):
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
