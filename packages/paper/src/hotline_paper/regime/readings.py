"""Readings of the figures of Pan et al. to which the model of their servers is fitted.

Only Fig. 1 gives a number with two sides. The others say what dominates, or within which bounds a quantity
lies, so that many parameters fit as well. Figures 8 and 9 are held out (`held_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from hotline_paper.regime.model import Observables, Parameters, Values, observe

SERVERS = 20
"""Servers of the cluster that the paper measures (§2.1)."""
BASE_WORKERS, MEASURED_WORKERS, LARGEST_WORKERS = 16, 80, 512
"""The numbers of workers of Fig. 1's reference, of the other figures, and of Fig. 1's last point."""
ServersOf = Callable[[int], int]
"""Returns the servers of a number of workers in Fig. 1, which the paper does not say."""
SERVERS_IN_FIG_1: Mapping[str, ServersOf] = {
    f"{SERVERS} servers": lambda workers: SERVERS,
    "a server for four workers": lambda workers: workers // 4,
}


class FigureReading(NamedTuple):
    figure: str
    quantity: str
    low: float
    high: float


READINGS = (
    FigureReading("1", "speed of 512 workers, as a share of the ideal", 0.45, 0.55),
    FigureReading("5", "share of PS_proc in an RPC's latency", 0.2, 1.0),
    FigureReading("5", "share of N_tx in an RPC's latency", 0.2, 1.0),
    FigureReading("5", "smaller share of PS_proc and N_tx, as a multiple of the queues'", 1.0, np.inf),
    FigureReading("7a", "longest interval as a multiple of the median", 10.0, np.inf),
    FigureReading("7b", "workers that call a server within 1,000 µs", 50.0, 80.0),
)
"""Figures and readings with bounds of the reading error. In Fig. 5 PS_proc and N_tx dominate: they are taken
to have a fifth each, and more than the queues. Fig. 7b has 50 to 200, but no more than the 80 workers of §2.1
can call."""


def predicted_readings(parameters: Parameters, servers_of: ServersOf) -> tuple[Values, ...]:
    """Return the model's values of `READINGS`, in their order."""
    base, largest = (
        observe(parameters, workers, servers_of(workers)) for workers in (BASE_WORKERS, LARGEST_WORKERS)
    )
    measured = observe(parameters, MEASURED_WORKERS, SERVERS)
    speed = largest.steps_per_s / base.steps_per_s * BASE_WORKERS / LARGEST_WORKERS
    return speed, *latency_shares(measured), measured.long_interval, measured.callers


def latency_shares(measured: Observables) -> tuple[Values, Values, Values]:
    ps_proc, n_tx = (each / measured.latency_us for each in (measured.ps_proc_us, measured.n_tx_us))
    queues = (measured.ps_queue_us + measured.w_queue_us) / measured.latency_us
    return ps_proc, n_tx, np.minimum(ps_proc, n_tx) / queues
