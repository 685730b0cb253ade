"""Compile and cache all machine code of dense models, by sending two gradients (`make test`)."""

from __future__ import annotations

import numpy as np

from hotline_dense.alpha_beta import AlphaBetaModel, simulate
from hotline_dense.layers import Layers
from hotline_dense.packets import simulate_rings
from hotline_dense.schedulers import best, optimum


def warm() -> None:
    layers, network = Layers(("a", "b"), np.ones(2, np.int64), np.ones(2)), AlphaBetaModel()
    for scheduler in (best, optimum):
        simulate(layers, network, scheduler(layers, network))
    simulate_rings(np.ones(1, np.int64), np.zeros(1), workers=2, gbit=1.0)
