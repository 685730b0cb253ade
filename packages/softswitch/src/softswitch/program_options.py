"""Options of commands that take P4 source: folders of included files, and macros."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from softswitch.p4.preprocessor import parse_definition

F = TypeVar("F", bound=Callable[..., Any])


def source_options(command: F) -> F:
    """Add `-I` and `-D`, whose values are `include_folders` and `definitions`."""
    command = click.option(
        "-D",
        "definitions",
        multiple=True,
        metavar="NAME[=VALUE]",
        callback=_parse_definitions,
        help="Macro of P4 source; repeat the option.",
    )(command)
    return click.option(
        "-I",
        "include_folders",
        multiple=True,
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        help="Folder of files that P4 source includes; repeat the option.",
    )(command)


def _parse_definitions(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    return tuple(map(parse_definition, texts))
