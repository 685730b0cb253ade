"""CPU time that a watched server did not get in each second: steal, other programs, and waits."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from analysis.disturbance import RUN_QUEUE, cost_source, reasons_of_machine
from analysis.disturbed_blocks import SECOND, CostSources
from analysis.record import Contention
from analysis.unexplained_waits import NORMAL_WAITING
from experiment.session import MachineCounters
from hotline_answers.probe.processes import ServerProcesses
from topologies.cpu_counters import read_contention
from topologies.process_statistics import read_wait_ns_by_thread

_SECOND_S = 1.0


class WatchedSecond(NamedTuple):
    contention: Contention
    longest_wait_ms: float
    """Time in which the thread that waited most was ready to run and did not."""


class _Reading(NamedTuple):
    at_s: float  # monotonic
    machine: MachineCounters
    cpu_ns: int
    wait_ns: Mapping[int, int]  # by thread


class ContentionWatch:
    """A watch of the machine of some processes. Call `poll` after each refresh of the processes."""

    def __init__(self, processes: ServerProcesses) -> None:
        self._processes = processes
        self._before = self._read()
        self._seconds: list[WatchedSecond] = []

    def poll(self) -> None:
        """End a second if it has passed."""
        if time.monotonic() - self._before.at_s >= _SECOND_S:
            self._end_second()

    def finish(self) -> Sequence[WatchedSecond]:
        """Return the whole seconds, or what was watched if there is none."""
        if not self._seconds:
            self._end_second()
        return self._seconds

    def _read(self) -> _Reading:
        pids = self._processes.pids
        wait_ns = {thread: ns for pid in pids for thread, ns in read_wait_ns_by_thread(pid).items()}
        # This process is no other program: its CPU time for events is part of the watch.
        machine = read_contention(own_pids=[os.getpid(), *pids], cpus=range(_cpus()))
        return _Reading(time.monotonic(), machine, self._processes.cpu_ns, wait_ns)

    def _end_second(self) -> None:
        before, now = self._before, self._read()
        elapsed = now.machine.since(before.machine)
        # A thread that has begun in this second has waited in it.
        longest_wait_ns = max(
            (ns - before.wait_ns.get(thread, 0) for thread, ns in now.wait_ns.items()), default=0
        )
        contention = Contention(
            duration_ms=1e3 * (now.at_s - before.at_s),
            steal_ms=elapsed.steal_ms,
            others_cpu_ms=elapsed.others_cpu_ms,
            pressure_ms=elapsed.pressure_ms,
        )
        contention.disturbed = reasons_of_second(
            contention, longest_wait_ns, now.cpu_ns - before.cpu_ns, _cpus()
        )
        self._seconds.append(WatchedSecond(contention, longest_wait_ns / 1e6))
        self._before = now


def reasons_of_second(contention: Contention, longest_wait_ns: int, cpu_ns: int, cpus: int) -> list[str]:
    """Return what disturbed a server, which used `cpu_ns`, in a second."""
    found_reasons = reasons_of_machine(contention, cpus)
    # A thread that waits longer than all of the server's threads run waits for other programs.
    if longest_wait_ns > cpu_ns + 1e6 * NORMAL_WAITING * contention.duration_ms:
        found_reasons.append(RUN_QUEUE)
    return found_reasons


def sources_of_probe(seconds: Sequence[WatchedSecond]) -> CostSources:
    if not seconds:
        return ()
    return (cost_source([second.contention for second in seconds], _cpus(), SECOND),)


def _cpus() -> int:
    return os.cpu_count() or 1
