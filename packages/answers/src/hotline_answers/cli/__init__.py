"""`hotline answer`: what a switch would do for a cluster, and predictions from measured runs."""

from __future__ import annotations

import click

from hotline.cli.common import DefaultGroup
from hotline.cli.examples import add_example
from hotline_answers.cli.answer import cluster
from hotline_answers.cli.predict import fit, predict
from hotline_answers.cli.sweep import sweep

_EXAMPLES = {
    cluster: "--workers 40 --servers 8 --data log.csv",
    sweep: "top-k skew",
    fit: "runs/one -o hosts.toml",
    predict: "runs/two --hosts hosts.toml",
}


@click.group("answer", cls=DefaultGroup)
def answer_command() -> None:
    """Ask what a switch would do for a cluster of yours.

    `hotline answer --workers 8 --servers 2` is short for `hotline answer cluster --workers 8 --servers 2`.
    """


for command, arguments in _EXAMPLES.items():
    answer_command.add_command(command)
    add_example(command, arguments, f"answer {command.name}")
