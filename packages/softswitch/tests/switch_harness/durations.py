"""How long units of tests take, by a file that `--record-durations` renews (`make durations`).

The scheduler starts the longest unit first. A unit without a line in the file takes less than a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

FILE = Path("tests", "durations.tsv")
"""Relative to the root of the session: softswitch alone has none, and takes two minutes."""
_LEAST_S = 1.0


def read_durations(config: pytest.Config) -> dict[str, float]:
    """Return the seconds of units of tests; of an absent file, of none."""
    return parse(config.rootpath / FILE)


def parse(file: Path) -> dict[str, float]:
    if not file.exists():
        return {}
    text = file.read_text()
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {unit: float(seconds) for seconds, unit in rows}


def write(durations: dict[str, float]) -> str:
    """Return the text of the file: a line for each unit that takes a second or more, the longest first."""
    rows = sorted(((-round(seconds), unit) for unit, seconds in durations.items() if seconds >= _LEAST_S))
    head = "# seconds, and the unit of tests that takes them; renewed by `make durations`\n"
    return head + "".join(f"{-seconds}\t{unit}\n" for seconds, unit in rows)


class DurationRecorder:
    """A plugin that adds up the durations of all tests of a session and renews the file at its end.

    Units that the session has not run keep their lines while their modules or folders exist.
    """

    def __init__(self, file: Path, unit_of: Callable[[str], str]) -> None:
        self._file, self._unit_of = file, unit_of
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[self._unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        # What a failed session measured is not worth recording.
        if exitstatus == 0:
            root = self._file.parents[len(FILE.parts) - 1]
            before = parse(self._file)
            kept = {unit: before[unit] for unit in before if (root / unit.partition("::")[0]).exists()}
            self._file.write_text(write({**kept, **self._seconds}))
