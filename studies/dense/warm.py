"""Compile what plays and searches, once. Set-up does so."""

from __future__ import annotations

import numpy as np

from studies.dense.layers import Layers
from studies.dense.packets import carry_rings
from studies.dense.play import Collectives
from studies.dense.schedulers import best
from studies.dense.search import optimum


def warm() -> None:
    """Takes a quarter of a minute after every change of the code that is compiled, and else no time."""
    toy = Layers(("in", "out"), np.array([8, 8]), np.array([1.0, 1.0]))
    best(toy, Collectives())
    optimum(toy, Collectives())
    carry_rings(np.array([8]), np.array([1.0]), 2, 10.0)


if __name__ == "__main__":
    warm()
