"""How long units of tests take, by a file that `--record-durations` renews (`make durations`).

The scheduler starts the longest unit first. A unit without a line in the file takes less than a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

FILE = Path("tests", "durations.tsv")
"""Relative to the root of the session: softswitch alone has none, and takes two minutes."""
_LEAST_S = 1.0


def read_durations(config: pytest.Config) -> dict[str, float]:
    """Return the seconds of units of tests; of an absent file, of none."""
    file = config.rootpath / FILE
    if not file.exists():
        return {}
    return parse(file.read_text())


def parse(text: str) -> dict[str, float]:
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {unit: float(seconds) for seconds, unit in rows}


def write(durations: dict[str, float]) -> str:
    """Return the text of the file: a line for each unit that takes a second or more, the longest first."""
    rows = sorted(((-round(seconds), unit) for unit, seconds in durations.items() if seconds >= _LEAST_S))
    head = "# seconds, and the unit of tests that takes them; renewed by `make durations`\n"
    return head + "".join(f"{-seconds}\t{unit}\n" for seconds, unit in rows)


class DurationRecorder:
    """A plugin that adds up the durations of all tests of a session and writes the file at its end."""

    def __init__(self, file: Path, unit_of: Callable[[str], str]) -> None:
        self._file, self._unit_of = file, unit_of
        self._seconds = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[self._unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        # What a failed session measured is not worth recording.
        if exitstatus == 0:
            self._file.write_text(write(self._seconds))
