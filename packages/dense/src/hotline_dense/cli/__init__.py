"""`hotline dense`: what-if answers, overlap and layers."""

from __future__ import annotations

import click

from hotline.cli.examples import add_example
from hotline_dense.cli.layers import layers
from hotline_dense.cli.overlap import overlap
from hotline_dense.cli.whatif import whatif

_EXAMPLES = {
    whatif: "resnet50 --workers 32",
    overlap: "resnet50 --alpha-ms 0.5",
    layers: "train.py -o model.csv",
}


@click.group()
def dense() -> None:
    """Ask whether the network is the bottleneck of dense training."""


for command, arguments in _EXAMPLES.items():
    dense.add_command(command)
    add_example(command, arguments, f"dense {command.name}")
