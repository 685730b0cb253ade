"""Counters of the kernel, read from made-up files of /proc and from the real ones."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.disturbance import MAX_CLOCK_STEP_MS
from experiment.session import MachineCounters
from switch_harness.clocks import STEPS_NS, SteppedClock
from switch_harness.waiting import wait_for
from tests.harness.children import child
from topologies.cpu_counters import ProcessTimes, read_contention, sum_other_ticks

STAT = """\
cpu  9 9 9 9 9 9 9 999 0 0
cpu0 1 2 3 4 5 6 7 100 0 0
cpu1 1 2 3 4 5 6 7 20 0 0
cpu2 1 2 3 4 5 6 7 3 0 0
intr 12 0 7
"""
PRESSURE = """\
some avg10=30.27 avg60=16.70 avg300=10.33 total=8330219
full avg10=0.00 avg60=0.00 avg300=0.00 total=77
"""


def a_proc(folder: Path, processes: dict[int, str]) -> Path:
    (folder / "stat").write_text(STAT)
    (folder / "pressure").mkdir()
    (folder / "pressure" / "cpu").write_text(PRESSURE)
    (folder / "self").mkdir()
    for pid, line in processes.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(line)
    return folder


def line(pid: int, parent: int, name: str, *ticks: int) -> str:
    return f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {' '.join(map(str, ticks))} 20 0 1 0"


def test_contention_is_read_from_the_kernels_files(tmp_path: Path) -> None:
    processes = {
        1: line(1, 0, "init", 1, 2, 30, 40),
        2: line(2, 0, "kthreadd", 500, 500, 0, 0),
        7: line(7, 2, "kworker/0:1", 500, 500, 0, 0),
        50: line(50, 1, "sh -c (a) b", 100, 200, 0, 0),
        60: line(60, 50, "python", 5000, 5000, 5000, 5000),
        70: line(70, 60, "worker", 5000, 5000, 0, 0),
        80: line(80, 70, "deeper", 5000, 5000, 0, 0),
    }
    proc = a_proc(tmp_path, processes)
    (proc / "99").mkdir()  # it has just ended
    tick = 1000 / os.sysconf("SC_CLK_TCK")
    found = read_contention(proc, own_pids=[60], cpus=[0, 2])
    assert (found.steal_ms, found.others_cpu_ms) == pytest.approx((103 * tick, (73 + 300) * tick))
    assert found.pressure_ms == pytest.approx(8330.219)


def test_a_kernel_without_pressure_information_reports_no_pressure(tmp_path: Path) -> None:
    proc = a_proc(tmp_path, {})
    (proc / "pressure" / "cpu").unlink()
    assert read_contention(proc, own_pids=[1], cpus=[0]).pressure_ms == 0
    (proc / "pressure" / "cpu").write_text("")
    assert read_contention(proc, own_pids=[1], cpus=[0]).pressure_ms == 0


def test_differences_of_counters_are_not_negative_after_a_process_ends() -> None:
    assert MachineCounters(10, 4, 3, 2).since(MachineCounters(1, 5, 4, 3)) == MachineCounters(9, 0, 0, 0)
    assert MachineCounters(10, 4, 3, 2).since(MachineCounters(1, 1, 1, 1)) == MachineCounters(9, 3, 2, 1)


@pytest.mark.parametrize("step_ns", STEPS_NS.values(), ids=STEPS_NS)
def test_a_clock_that_is_set_is_a_disturbance(monkeypatch: pytest.MonkeyPatch, step_ns: int) -> None:
    """A block's begin, end and duration are those of the monotonic clock all the same."""
    clock = SteppedClock()
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    begin_ns, before = time.monotonic_ns(), read_contention()
    assert read_contention().since(before).clock_step_ms < MAX_CLOCK_STEP_MS
    clock.step(step_ns)
    elapsed = read_contention().since(before)
    end_ns = time.monotonic_ns()
    assert elapsed.clock_step_ms == pytest.approx(abs(step_ns) / 1e6, abs=MAX_CLOCK_STEP_MS)
    assert 0 <= elapsed.at_ms <= (end_ns - begin_ns) / 1e6


def test_the_clock_of_one_of_several_machines_is_a_disturbance() -> None:
    quiet, other = MachineCounters(9.0, unix_offset_ms=50.0), MachineCounters(9.0, unix_offset_ms=-7.0)
    before = MachineCounters(1.0, machines={"a": quiet, "b": other})
    after = MachineCounters(1.0, machines={"a": quiet, "b": replace(other, unix_offset_ms=-12.0)})
    assert after.since(before).clock_step_ms == 5.0
    assert before.since(before).clock_step_ms == 0.0


def test_the_time_of_a_reaped_child_is_counted_at_its_parent() -> None:
    before = [ProcessTimes(5, 1, 100), ProcessTimes(6, 5, 40)]
    after = [ProcessTimes(5, 1, 100 + 45)]
    assert sum_other_ticks(after, own_pids=[9]) - sum_other_ticks(before, own_pids=[9]) == 5


def test_cpu_time_of_another_process_is_counted() -> None:
    """It does not descend from the process that reads."""
    with child([sys.executable, "-c", "while True: pass"]), child(["sleep", "1000"]) as other:
        before = read_contention(own_pids=[other.pid])
        wait_for(lambda: read_contention(own_pids=[other.pid]).since(before).others_cpu_ms >= 50)


def test_the_contention_of_the_real_machine_can_be_read() -> None:
    first = read_contention()
    taken = read_contention().since(first)
    assert taken.at_ms >= 0 and first.steal_ms >= 0 and first.pressure_ms >= 0
