"""The examples at the end of each command's `--help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

EXAMPLES: Final[Mapping[str, str]] = {
    "run": "WORKERS=8 TOP_K=5000",
    "report": "runs/latest",
    "figures": "runs/latest -o figures",
    "compare": "runs/one runs/two",
    "logs check": "runs/latest",
    "watch": "--interval 5",
    "recover": "runs/latest",
    "explain": "push",
    "hotset curve": "updates.parquet -o curve.png",
    "hotset build": "updates.parquet --top-k 20000 -o hot.parquet",
    "hotset show": "hot.parquet",
    "simulate": "mine.toml",
    "faults": "'switch restarted' --schedules 100",
    "up": "mine.toml",
    "down": "",
    "status": "--json",
    "load": "hot.parquet --job 1 --dry-run",
    "follow": "--top-k 20000 --job 1",
    "quota": "--job 1 --keys 20000",
    "offload": "off --job 1",
    "proxy": "on --job 1",
    "registers": "17 42 --job 1",
    "unload": "--job 1",
}


def find_command(root: click.Command, path: str) -> click.Command:
    """Find a command by its names, such as "hotset curve"; raise KeyError for an unknown name."""
    for name in path.split():
        if not isinstance(root, click.Group):
            raise KeyError(path)
        root = root.commands[name]
    return root


def add_examples(root: click.Group) -> None:
    for path, arguments in EXAMPLES.items():
        add_example(find_command(root, path), arguments, path)


def add_example(command: click.Command, arguments: str, path: str | None = None) -> None:
    """Set the example at the end of a command's help; `path` has its names below `hotline`."""
    command.epilog = f"Example: hotline {path or command.name} {arguments}".rstrip()
