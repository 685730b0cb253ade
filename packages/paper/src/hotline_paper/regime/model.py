"""A closed queueing model of workers and servers, which gives the quantities of Pan et al.'s figures.

A worker computes, pulls and pushes. Each operation sends requests to every server, as many at a time as
`WINDOW` allows. A server polls its connections, takes all requests that wait (a burst) and processes them at
once, so that they compete. A worker's requests to one server are far apart, because it sends those to the
others between them. The mean number of requests at a server follows from Little's law and from the arrival
theorem (Reiser and Lavenberg, 1980), solved by bisection. Where competition makes several equilibria
possible, one of them is found. All servers are alike, and the slowest one of an operation is taken to be the
mean one; `hotline_simulator` has neither simplification.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

Values = NDArray[np.float64]

ROWS_PER_STEP, ROWS_PER_RPC = 800, 8
"""Rows have 16 values: answers to pulls have 527 B, requests 115 B, and answers to pushes 56 B (Fig. 6)."""
WINDOW = 64
"""RPCs that a worker has outstanding."""
MAX_BURST = 64
"""Requests that a server takes at a time."""
WORKER_RPC_US, WORKER_OPERATION_US = 2.2, 110.0
"""A worker's time for an RPC, and for an operation: the simulator's default costs."""
WORKER_WAIT_US = 10.0
"""Mean wait of a request, and likewise of an answer, for the others of its burst at the worker."""
CORES = 32
"""Cores of a server, which the paper does not give."""
_CROSSINGS = 4  # cables that a request and its answer cross
_BISECTIONS = 60
_WINDOW_MS = 1.0
"""Fig. 7b counts workers in windows of this duration."""


class Parameters(NamedTuple):
    """The fitted parameters; each is a number, or an array with a value for each point of a grid."""

    compute_ms: float | Values
    """Time for which a worker reads and trains in a step."""
    delay_us: float | Values
    """Delay of a frame on each of the cables and in the hosts' network stacks."""
    serve_us: float | Values
    """The RPC layer, reads and writes: the time that one of a server's cores takes for a request alone."""
    connection_ns: float | Values
    """A server's time for each connection, before a burst."""
    contention: float | Values
    """Extra time of a request for each other one that is processed meanwhile, as a share of `serve_us`."""


class Observables(NamedTuple):
    """The quantities that the paper measured of a cluster; they are arrays if the parameters are arrays."""

    steps_per_s: Values  # of all workers together
    servers_busy: Values  # share of time
    workers_busy: Values
    ps_proc_us: Values
    ps_queue_us: Values
    n_tx_us: Values
    w_queue_us: Values
    callers: Values
    """Workers that call one server within 1,000 µs."""
    long_interval: Values
    """The longest interval between two RPCs of a worker at a server, as a multiple of the median one."""

    @property
    def latency_us(self) -> Values:
        return self.ps_proc_us + self.ps_queue_us + self.n_tx_us + self.w_queue_us


@cache
def rpcs_per_operation(servers: int) -> float:
    """Return the mean number of RPCs of an operation to one server, each with up to `ROWS_PER_RPC` rows."""
    rows = np.arange(ROWS_PER_STEP + 1)
    return float(binom.pmf(rows, ROWS_PER_STEP, 1 / servers) @ np.ceil(rows / ROWS_PER_RPC))


def observe(parameters: Parameters, workers: int, servers: int) -> Observables:
    compute_us = 1e3 * np.asarray(parameters.compute_ms)
    network_us = _CROSSINGS * np.asarray(parameters.delay_us)
    core_us, contention = np.asarray(parameters.serve_us), np.asarray(parameters.contention)
    # Several cores are one that is as fast as all of them, and a delay (Seidmann et al., 1987).
    serve_us = core_us / CORES
    latency_us = core_us - serve_us
    poll_us = 1e-3 * np.asarray(parameters.connection_ns) * workers
    rpcs = rpcs_per_operation(servers)
    waves = max(1.0, float(np.ceil(rpcs * servers / WINDOW)))
    own_us = 2 * (WORKER_OPERATION_US + WORKER_RPC_US * rpcs * servers)

    def request_us(queued: Values) -> Values:
        burst = np.minimum(1 + queued, MAX_BURST)
        competition = 1 + contention * (burst - 1)
        return np.asarray(serve_us * competition + poll_us / burst)

    def sojourn_us(queued: Values) -> Values:
        return request_us(queued) * (1 + queued * (workers - 1) / workers)

    def steps_per_us(queued: Values) -> Values:
        return np.asarray(queued / (2 * rpcs * sojourn_us(queued)))

    def step_us(queued: Values) -> Values:
        return compute_us + own_us + 2 * waves * (network_us + latency_us + sojourn_us(queued))

    queued = _bisect(
        lambda queued: np.asarray(steps_per_us(queued) * step_us(queued) > workers),
        np.zeros(np.broadcast(compute_us, network_us, serve_us, poll_us, contention).shape),
        workers * rpcs / waves,  # that all workers may have outstanding at a server
    )
    rate, step, sojourn = steps_per_us(queued), step_us(queued), sojourn_us(queued)
    request, burst = request_us(queued), np.minimum(1 + queued, MAX_BURST)
    dispatch_us = np.minimum(poll_us, sojourn)
    # Answers are sent when the burst is finished: half of it, in the mean, after their own processing.
    unsent_us = np.minimum(request * (burst - 1) / 2, sojourn - dispatch_us)
    operation_ms = 1e-3 * waves * (network_us + latency_us + sojourn)
    instants = min(waves, rpcs)
    spread_ms = (instants - 1) * np.minimum(operation_ms / instants, _WINDOW_MS)
    return Observables(
        steps_per_s=1e6 * rate,
        servers_busy=np.minimum(1.0, 2 * rpcs * rate * request),
        workers_busy=(compute_us + own_us) / step,
        ps_proc_us=latency_us + sojourn - dispatch_us - unsent_us,
        ps_queue_us=dispatch_us,
        n_tx_us=network_us + WORKER_WAIT_US + unsent_us,
        w_queue_us=np.full_like(sojourn, WORKER_WAIT_US),
        callers=workers * np.minimum(1.0, 2e3 * (_WINDOW_MS + spread_ms) / step),
        long_interval=(compute_us + own_us / 2) / (WORKER_RPC_US * servers),
    )


def _bisect(is_above: Callable[[Values], NDArray[np.bool_]], low: Values, high: float) -> Values:
    lower, upper = low, np.full_like(low, high)
    for _ in range(_BISECTIONS):
        middle = (lower + upper) / 2
        above = is_above(np.maximum(middle, 1e-12))
        lower, upper = np.where(above, lower, middle), np.where(above, middle, upper)
    return np.asarray(np.maximum(lower, 1e-12))
