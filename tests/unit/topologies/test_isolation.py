"""What is moved out of the way, and back."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from switch_harness.waiting import wait_for
from tests.harness.children import child
from topologies.cpu_counters import find_idle_threads, isolate, restore_affinities
from topologies.process_statistics import read_cpu_ns_by_thread


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Start two sleeping processes; the second stands for the kernel's threads."""
    with child(["sleep", "1000"]) as first, child(["sleep", "1000"]) as second:
        monkeypatch.setattr("topologies.cpu_counters.list_kernel_threads", lambda: [second.pid, 2**22])
        yield [first.pid, second.pid]


@pytest.mark.parametrize("moves", [True, False])
def test_isolated_processes_share_one_cpu_and_get_their_affinities_back(
    others: list[int], tmp_path: Path, moves: bool
) -> None:
    usable, file = os.sched_getaffinity(0), tmp_path / "affinity"
    processes = [threading.get_native_id(), *others]
    with isolate(min(usable) if moves else None, others[:1], file) as moved:
        assert [os.sched_getaffinity(each) for each in processes] == [{min(usable)} if moves else usable] * 3
        assert (moved >= 2) if moves else (moved == 0)
        assert file.exists() == moves
    assert [os.sched_getaffinity(each) for each in processes] == [usable] * 3
    assert not file.exists()


def test_affinities_that_a_killed_run_has_changed_are_restored(others: list[int], tmp_path: Path) -> None:
    usable = os.sched_getaffinity(0)
    file = tmp_path / "file"
    file.write_text(json.dumps({others[1]: sorted(usable), 2**22: [0]}))
    os.sched_setaffinity(others[1], {min(usable)})
    restore_affinities(file)
    assert os.sched_getaffinity(others[1]) == usable
    assert not file.exists()
    restore_affinities(file)  # nothing is left to do


def test_threads_with_less_than_a_twentieth_of_the_cpu_time_are_idle() -> None:
    before = {1: 1000, 2: 50, 3: 0}
    assert find_idle_threads(before, {1: 1950, 2: 100, 3: 0, 4: 49}) == [2, 3, 4]
    assert find_idle_threads(before, before) == []
    assert find_idle_threads({}, {}) == []


def test_the_cpu_time_of_a_process_is_read_by_thread() -> None:
    this = threading.get_native_id()
    before = read_cpu_ns_by_thread(os.getpid())[this]
    wait_for(lambda: read_cpu_ns_by_thread(os.getpid())[this] > before)
