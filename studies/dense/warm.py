"""Compile the simulations and searches ahead of their first use: `python -m studies.dense.warm`."""

from __future__ import annotations

import numpy as np

from studies.dense.alpha_beta import AlphaBetaModel
from studies.dense.layers import Layers
from studies.dense.packets import simulate_rings
from studies.dense.schedulers import best
from studies.dense.search import optimum


def warm() -> None:
    """Compile if needed, which takes 15 s after a change of the compiled code."""
    toy = Layers(("in", "out"), np.array([8, 8]), np.array([1.0, 1.0]))
    best(toy, AlphaBetaModel())
    optimum(toy, AlphaBetaModel())
    simulate_rings(np.array([8]), np.array([1.0]), 2, 10.0)


if __name__ == "__main__":
    warm()
