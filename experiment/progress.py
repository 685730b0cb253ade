"""Progress of a run on standard error: bars on a terminal, one line a phase elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from nativekit.notices import notices_to

_MIN_SHOWN_S = 1.0  # of a compilation
_REFRESH_HZ = 2  # refresh rate; drawing takes CPU time from the measured processes


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(label, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def named_progress_bar(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar with the name of the item done last; without a terminal, print each name."""
    is_terminal = Console(stderr=True).is_terminal

    def show(done: int, total: int, name: str) -> None:
        report(done, total)
        if name and not is_terminal:
            click.echo(f"{done} of {total}: {name}", err=True)

    with progress_bar(label) as report:
        yield show


class RunConsole(Console):
    """A console on standard error; if its pipe is closed, it becomes quiet, and the run continues."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        self.quiet = True


@contextmanager
def compilation_shown() -> Iterator[None]:
    """Print on standard error what this process compiles during the block, and how long it took."""
    has_begun = False

    def show(name: str, seconds: float | None) -> None:
        nonlocal has_begun
        if not has_begun:
            has_begun = True
            print("compiling what no earlier run has needed (once, up to a minute):", file=sys.stderr)
        if seconds is not None and seconds >= _MIN_SHOWN_S:
            print(f"  {name} ({seconds:.0f} s)", file=sys.stderr)

    with notices_to(show):
        yield


class Phase:
    def __init__(self, bars: Progress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def update(self, done: float, total: float | None = None) -> None:
        self._bars.update(self._task, completed=done, total=total)


class Reporter:
    """Shows phases, and records the duration of each in `durations`, in s."""

    def __init__(self, console: Console) -> None:
        self.durations: dict[str, float] = {}
        self._console = console
        self._note = ""
        self._bars = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            refresh_per_second=_REFRESH_HZ,
            disable=not console.is_terminal,
        )

    def stop(self) -> None:
        self._bars.stop()

    def set_note(self, text: str) -> None:
        self._note = text
        for task in self._bars.tasks:
            if not task.finished:
                self._bars.update(task.id, note=text)

    def message(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    @contextmanager
    def phase(self, name: str, total: float | None = None) -> Iterator[Phase]:
        """Show a phase within the context; `total` has the unit of `done` in `Phase.update`."""
        start = time.monotonic()
        task = self._bars.add_task(name, total=total, note=self._note)
        self._bars.start()
        try:
            yield Phase(self._bars, task)
        finally:
            self.durations[name] = round(time.monotonic() - start, 3)
        self._bars.update(task, completed=1, total=1)  # a full bar, whatever `total` was
        if not self._console.is_terminal:
            note = f", {self._note}" if self._note else ""
            self._console.print(f"{name}: {self.durations[name]:.1f} s{note}")
