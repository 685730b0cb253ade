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
    "answer": "--workers 40 --servers 8 --data updates.parquet",
    "explain": "push",
    "hotset curve": "updates.parquet -o curve.png",
    "hotset build": "updates.parquet --top-k 20000 -o hot.parquet",
    "hotset show": "hot.parquet",
    "policies": "updates.parquet --sizes 1000,20000",
    "miss-ratio": "ml-100k.inter --batch 1 -o curve.png",
    "whatif": "resnet50 --workers 32",
    "overlap": "resnet50 --alpha-ms 0.5",
    "layers": "train.py -o model.csv",
    "simulate": "mine.toml",
    "sweep": "top-k skew",
    "allreduce": "--quick",
    "optimisers": "--ratings ml-100k.inter",
    "faults": "'switch restarted' --schedules 100",
    "fit": "runs/one -o hosts.toml",
    "predict": "runs/two --hosts hosts.toml",
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
        find_command(root, path).epilog = f"Example: {root.name} {path} {arguments}".rstrip()
