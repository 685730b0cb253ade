"""What `hotline probe` sees of the machine, and what it makes of the costs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from analysis.disturbed_blocks import withheld_by
from analysis.record import Contention
from experiment.session import MachineCounters
from hotline_answers.probe import contention
from hotline_answers.probe.contention import ContentionWatch, WatchedSecond, reasons_of_second
from hotline_answers.probe.processes import ServedPort, ServerProcesses
from hotline_answers.probe.report import HOSTS_FILE, evaluate, write_files
from hotline_answers.probe.requests import UNKNOWN, SocketEvents
from hotline_answers.probe.watch import SocketFlow, WatchedServer
from hotline_simulator.config import load_hosts
from switch_harness.wording import says


def watched_with(seconds: Sequence[WatchedSecond]) -> WatchedServer:
    """Return a server that read ten datagrams."""
    events = SocketEvents(
        flow=np.zeros(10, np.int64), time_ns=np.arange(10), arrived_ns=np.full(10, UNKNOWN),
        size=np.ones(10, np.int64), is_write=np.zeros(10, bool), is_tcp=np.zeros(10, bool),
    )  # fmt: skip
    flow = SocketFlow(ServedPort(False, 7000), "192.0.2.1", 9)
    return WatchedServer(10.0, 1, 10_000, [flow], events, 0, 0, seconds)


@pytest.mark.parametrize(
    ("steal_ms", "others_ms", "wait_ms", "found"),
    [
        # Of two CPUs' 2,000 ms 2 % and 5 %, and a tenth of the second beyond the server's 300 ms.
        (40.0, 100.0, 400.0, []),
        (40.1, 0.0, 0.0, ["steal"]),
        (0.0, 100.1, 0.0, ["others' CPU"]),
        (0.0, 0.0, 400.1, ["run queue"]),
        (41.0, 101.0, 401.0, ["steal", "others' CPU", "run queue"]),
    ],
)
def test_a_second_is_disturbed_by_steal_foreign_cpu_time_or_waits_beyond_the_limits(
    steal_ms: float, others_ms: float, wait_ms: float, found: list[str]
) -> None:
    taken = Contention(duration_ms=1_000.0, steal_ms=steal_ms, others_cpu_ms=others_ms)
    assert reasons_of_second(taken, round(1e6 * wait_ms), 300_000_000, cpus=2) == found


@pytest.mark.parametrize(("disturbed", "is_withheld"), [(0, False), (2, False), (3, True)])
def test_the_costs_of_a_probe_record_the_disturbances_of_its_seconds(
    disturbed: int, is_withheld: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    seconds = [
        WatchedSecond(
            Contention(
                duration_ms=1_000.0, others_cpu_ms=500.0 if is_disturbed else 10.0, steal_ms=2.0,
                disturbed=["others' CPU"] * is_disturbed,
            ),
            longest_wait_ms=50.0,
        )
        for is_disturbed in (number < disturbed for number in range(10))
    ]  # fmt: skip
    report, log = evaluate(watched_with(seconds))
    others_share = (500 * disturbed + 10 * (10 - disturbed)) / 20_000
    assert (report.steal_share, report.others_cpu_share) == pytest.approx((0.001, others_share))
    assert report.longest_wait_share == pytest.approx(0.05)
    write_files(tmp_path, report, log, ps=1)
    [blocks] = load_hosts(tmp_path / HOSTS_FILE).sources
    assert (blocks.blocks, blocks.disturbed, blocks.kind) == (10, disturbed, "second")
    assert blocks.reasons == ({"others' CPU": disturbed} if disturbed else {})
    assert blocks.taken == pytest.approx(0.001 + others_share)
    assert (withheld_by([blocks]) is not None) is is_withheld
    assert [says(note, disturbed, 10, "CPU") for note in report.notes] == [True] * bool(disturbed)
    assert says((tmp_path / HOSTS_FILE).read_text(), f"{report.others_cpu_share:.1%}", "0.1%", "5.0%")


class Machine:
    """A server of two processes on a machine whose clock and counters a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.counters, self.cpu_ns = 0.0, MachineCounters(at_ms=0.0), 0
        self.pids, self.wait_ns = [7, 8], {7: {7: 0}, 8: {8: 0, 9: 0}}
        monkeypatch.setattr(os, "cpu_count", lambda: 2)
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(contention, "read_contention", self.read)
        monkeypatch.setattr(contention, "read_wait_ns_by_thread", lambda pid: dict(self.wait_ns[pid]))

    def read(self, own_pids: Sequence[int], cpus: Sequence[int]) -> MachineCounters:
        assert list(own_pids) == [os.getpid(), 7, 8] and list(cpus) == [0, 1]
        return self.counters

    def run(self, seconds: float, steal_ms: float, others_cpu_ms: float, wait_ms: float) -> None:
        before = self.counters
        self.now_s += seconds
        self.counters = replace(
            before, steal_ms=before.steal_ms + steal_ms, others_cpu_ms=before.others_cpu_ms + others_cpu_ms
        )
        self.cpu_ns += 100_000_000
        self.wait_ns[8][9] += round(1e6 * wait_ms)


def test_a_watch_counts_the_time_that_other_processes_took_in_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    watch = ContentionWatch(cast(ServerProcesses, machine))
    for run in ((0.5, 1.0, 2.0, 3.0), (0.75, 0.0, 3.0, 4.0), (1.0, 70.0, 0.0, 500.0), (0.4, 9.0, 9.0, 9.0)):
        machine.run(*run)
        watch.poll()
    first, second = watch.finish()
    assert (first.contention.duration_ms, first.longest_wait_ms) == (1_250, 7)
    assert (first.contention.steal_ms, first.contention.others_cpu_ms) == (1, 5)
    assert first.contention.disturbed == []
    assert (second.contention.duration_ms, second.longest_wait_ms) == (1_000, 500)
    assert second.contention.disturbed == ["steal", "run queue"]


def test_a_watch_of_less_than_a_second_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    watch = ContentionWatch(cast(ServerProcesses, machine))
    machine.run(0.4, 0.0, 41.0, 0.0)
    watch.poll()
    [second] = watch.finish()
    assert (second.contention.duration_ms, second.contention.disturbed) == (400, ["others' CPU"])
