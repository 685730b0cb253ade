"""Writes what was recorded to stdout: trees for people, or JSON lines."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click

from softswitch.explain.events import Event, to_json
from softswitch.explain.filters import Filter, select
from softswitch.explain.tree import draw, make_tree

LEAST_WIDTH = 60


def show(events: Sequence[Event], filters: Sequence[Filter], as_json: bool, everything: bool) -> None:
    """Print the events that pass; colours and lines of the terminal's width where it is one."""
    chosen = select(events, filters)
    if as_json:
        for event in chosen:
            click.echo(to_json(event))
        return
    width = max(LEAST_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 0
    for line in draw(make_tree(chosen, everything or bool(filters)), width):
        click.echo(line)
