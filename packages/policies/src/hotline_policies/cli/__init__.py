"""`hotline policies`: which rule keeps the right parameters hot, and miss ratios of caches."""

from __future__ import annotations

import click

from hotline.cli.common import DefaultGroup
from hotline.cli.examples import add_example
from hotline_policies.cli.memory import memory
from hotline_policies.cli.miss_ratio import miss_ratio
from hotline_policies.cli.policies import compare
from hotline_policies.cli.public_logs import public_logs

_EXAMPLES = {
    compare: "examples/clicks.csv --sizes 100,1000",
    memory: "examples/clicks.csv --dim 64",
    miss_ratio: "examples/clicks.csv -o curve.png",
    public_logs: "logs/",
}


@click.group(cls=DefaultGroup)
def policies() -> None:
    """Ask which parameters a log's switch or cache should hold.

    `hotline policies LOG` is short for `hotline policies compare LOG`.
    """


for command, arguments in _EXAMPLES.items():
    policies.add_command(command)
    add_example(command, arguments, f"policies {command.name}")
