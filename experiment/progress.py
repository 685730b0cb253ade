"""Progress of a run on standard error: bars on a terminal, one line a phase elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

_REFRESH_HZ = 2
"""What is shown takes CPU time from what is measured."""


class RunConsole(Console):
    """Standard error, on which a run goes on, and tidies up, when whoever read it has gone."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Be quiet, instead of ending the process half-way."""
        self.quiet = True


class Phase:
    """One phase under way."""

    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def update(self, done: float, total: float | None = None) -> None:
        """Say how much is done, and of how much where that has become known."""
        self._bars.update(self._task, completed=done, total=total)


class Reporter:
    """Shows phases and keeps how long each took, in s."""

    def __init__(self, console: Console) -> None:
        self.durations: dict[str, float] = {}
        self._console = console
        self._told = ""
        self._bars = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[told]}"),
            console=console,
            refresh_per_second=_REFRESH_HZ,
            disable=not console.is_terminal,
        )

    def stop(self) -> None:
        """Leave the terminal to others."""
        self._bars.stop()

    def tell(self, text: str) -> None:
        """Show something beside the phase under way, and behind those that follow."""
        self._told = text
        for task in self._bars.tasks:
            if not task.finished:
                self._bars.update(task.id, told=text)

    @contextmanager
    def phase(self, name: str, total: float | None = None) -> Iterator[Phase]:
        """Show a phase while it lasts; `total` is in the units of its updates."""
        start = time.monotonic()
        task = self._bars.add_task(name, total=total, told=self._told)
        self._bars.start()
        try:
            yield Phase(self._bars, task)
        finally:
            self.durations[name] = round(time.monotonic() - start, 3)
        self._bars.update(task, completed=1, total=1)
        if not self._console.is_terminal:
            told = f", {self._told}" if self._told else ""
            self._console.print(f"{name}: {self.durations[name]:.1f} s{told}")
