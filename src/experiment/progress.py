"""Progress of a run on standard error: bars on a terminal, one line a phase elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

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
_BAR_WIDTH = 30  # characters
_LINE_INTERVAL_S = 60.0  # between lines of progress where there is no terminal
_REFRESH_HZ = 2  # refresh rate; drawing takes CPU time from the measured processes


@contextmanager
def activity_bar(activity: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar with the current activity; without a terminal, print a line a minute."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _ProgressLines()
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(_BAR_WIDTH), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(activity, total=None)
        yield lambda activity, done, total: progress.update(
            task, description=activity, completed=done, total=total
        )


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; without a terminal, print a line a minute."""
    with activity_bar(label) as show:
        yield partial(show, label)


@contextmanager
def named_progress_bar(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar; without a terminal, print the name of each item that is done."""
    if not Console(stderr=True).is_terminal:
        yield _print_name
        return
    with progress_bar(label) as report:
        yield lambda done, total, name: report(done, total)


def _print_name(done: int, total: int, name: str) -> None:
    if name:
        click.echo(f"{done} of {total}: {name}", err=True)


class _ProgressLines:
    """Progress as lines on standard error, at most one per interval."""

    def __init__(self) -> None:
        self._last_s = time.monotonic()

    def __call__(self, activity: str, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - self._last_s >= _LINE_INTERVAL_S:
            self._last_s = now_s
            click.echo(f"{activity}: {done:,} of {total:,}", err=True)


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
            BarColumn(_BAR_WIDTH),
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
