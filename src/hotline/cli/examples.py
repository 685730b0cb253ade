"""The examples at the end of each command's `--help`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

EXAMPLES: Final[Mapping[str, str]] = {
    "new": "mine.idea",
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
    "load": "hot.parquet --job 4 --dry-run",
    "follow": "--top-k 20000 --job 4",
    "quota": "--job 4 --keys 20000",
    "offload": "off --job 4",
    "proxy": "on --job 4",
    "registers": "17 42 --job 4",
    "unload": "--job 4",
}


def add_examples(verb: click.Command) -> None:
    """Set the examples of a command of the core, or of the commands in its group."""
    for path, arguments in EXAMPLES.items():
        name, _, rest = path.partition(" ")
        if name == verb.name:
            command = verb.commands[rest] if rest and isinstance(verb, click.Group) else verb
            add_example(command, arguments, path)


def add_example(command: click.Command, arguments: str, path: str | None = None) -> None:
    """Set the example at the end of a command's help; `path` has its names below `hotline`."""
    command.epilog = f"Example: hotline {path or command.name} {arguments}".rstrip()
