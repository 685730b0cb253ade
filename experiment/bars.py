from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


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
