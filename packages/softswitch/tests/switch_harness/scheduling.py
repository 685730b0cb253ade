"""Assignment of tests to the processes of pytest-xdist, the longest first.

It depends on the folder and file of a test, and not on xdist's groups: pytest 9.2 does not see what xdist 3.8
adds to a test's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from switch_harness.durations import read_durations

_NETWORK = re.compile(r"(^|/)tests/(mininet|netns)/")
_MININET = re.compile(r"(^|/)tests/mininet/")
_NEW_RUN_S = 10.0
_TOGETHER = re.compile(r"tests/unit/golden/|packages/(answers|dense|policies|simulator)/tests/unit/")
"""Folders whose tests share what they make once, or have compiled, and what no other test needs."""
_GOLDEN_FOLDER = "tests/unit/golden/"
_GOLDEN_PAPER = "packages/paper/tests/unit/test_golden_paper.py"
"""A module elsewhere that uses the same run as the tests in the folder, which takes 6 s to make."""


def unit_of(nodeid: str) -> str:
    """Return the unit of work that a test belongs to, whose tests run in one process, one after the other.

    It is the test's module, whose tests share fixtures and caches, or one of a few folders. Tests of networks
    take long, as they start processes: each is a unit, unless a fixture makes something for all tests of the
    module. It would be made again in each process, and after each other unit in between.
    """
    if nodeid.startswith(_GOLDEN_PAPER):
        return _GOLDEN_FOLDER
    if folder := _TOGETHER.match(nodeid):
        return folder[0]
    module = nodeid.partition("::")[0]
    return nodeid if _NETWORK.search(nodeid) and not _has_module_fixture(module) else module


@cache
def _has_module_fixture(module: str) -> bool:
    """Return whether a file, relative to the folder of the session, has a fixture of the module's scope."""
    file = Path(module)
    return file.is_file() and 'scope="module"' in file.read_text()


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """A unit of work goes to whichever process is free, the longest first, by the durations in a file.

    So all processes end at about the same time. Tests of networks go to one process at a time while there are
    others, because they wait for processes and clocks, and several at once leave processors idle. Where there
    is but one network for all processes, all tests of networks go to one process.
    """

    def __init__(self, config: pytest.Config, log: Any, *, is_one_network: bool) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._durations = read_durations(config)
        self._expected = dict[str, float]()  # by unit
        self._network_units = dict[Any, str]()  # the latest of each process
        self._is_one_network = is_one_network

    def _split_scope(self, nodeid: str) -> str:
        return "networks" if self._is_one_network and _NETWORK.search(nodeid) else unit_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Return the test that a process which ended was running, if any, and give its other tests to others.

        xdist would offer the finished units as well, which leave a process that takes one idle for ever, and
        the test itself, which would end each process in turn.
        """
        workload = self.assigned_work.pop(node)
        waiting = {
            unit: left
            for unit, tests in workload.items()
            if (left := {test: False for test, is_done in tests.items() if not is_done})
        }
        if not waiting:
            return None
        first = next(iter(waiting))
        crashed: str = next(iter(waiting[first]))
        if len(waiting[first]) == 1:
            del waiting[first]
        else:
            del waiting[first][crashed]
        self.workqueue.update(waiting)
        for other in self.nodes:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give a process work until it has two tests: it starts one only if it knows the next one."""
        if node not in self.registered_collections:  # It takes the place of another, and collects tests.
            return
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        # Summed up once a unit: for each choice it would take 10 s of CPU time of a session of 11,000 tests.
        for unit in self.workqueue.keys() - self._expected.keys():
            self._expected[unit] = self._expected_seconds(unit)
        unit = max(self._units_for(node), key=self._expected.__getitem__)
        if _NETWORK.search(unit):
            self._network_units[node] = unit
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)

    def _units_for(self, node: Any) -> Collection[str]:
        """Return the units that wait, without those of networks while another process has one."""
        are_networks_busy = any(
            not all(self.assigned_work.get(other, {}).get(unit, {}).values())
            for other, unit in self._network_units.items()
            if other is not node
        )
        others = [unit for unit in self.workqueue if not _NETWORK.search(unit)] if are_networks_busy else []
        return others or self.workqueue

    def _expected_seconds(self, unit: str) -> float:
        """Return the duration of a unit; without one in the file, a run of Mininet's comes before others."""
        tests = {unit_of(nodeid) for nodeid in self.workqueue[unit]}
        return sum(self._durations.get(each, _NEW_RUN_S if _MININET.search(each) else 0.0) for each in tests)
