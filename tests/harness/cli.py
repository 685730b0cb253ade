"""Commands of `hotline`, run in the tests' own process, and hot sets for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import polars as pl
from click.testing import CliRunner, Result

from controller.hotset import choice
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hotline.cli.commands import hotline


def invoke(*arguments: object) -> Result:
    """Run a command; exceptions that it does not turn into a message are raised."""
    return CliRunner().invoke(hotline, list(map(str, arguments)), catch_exceptions=False)


def output_of(*arguments: object) -> str:
    """Return what a command prints that succeeds and reports nothing else."""
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (0, ""), f"exit status {result.exit_code}: {result.stderr}"
    return result.stdout


def json_of(*arguments: object) -> Any:
    """Return what a command that succeeds prints with `--json`."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def find_command(path: str) -> click.Command:
    """Return a command by its names, such as "hotset curve"."""
    found: click.Command = hotline
    for name in path.split():
        assert isinstance(found, click.Group), path
        found = found.commands[name]
    return found


def write_hot_set(folder: Path, updates: Mapping[int, int], ranges: RowRanges = ONE_VALUE) -> str:
    """Write an update log with these updates of keys, and the hot set of all of them; return its path."""
    log, file = folder / "log.parquet", folder / "hot.parquet"
    pl.DataFrame({"key": list(updates), "updates": list(updates.values())}).write_parquet(log)
    choice.write(choice.build([log], len(updates), ranges=ranges), file)
    return str(file)
