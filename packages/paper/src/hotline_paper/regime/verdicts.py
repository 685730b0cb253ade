"""Each figure and table of Pan et al.: the paper's value, ours by default and in its regime, and the verdict.

A verdict follows from the bounds of the paper's value: whether our value in its regime is within them. Where
it is not, it says what is reproduced nevertheless, or why it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from foundation.designs.hotset import BASELINE, OFFLOAD
from hotline_paper.regime.points import RegimeArm, RegimeResult
from hotline_paper.regime.readings import BASE_WORKERS, LARGEST_WORKERS

Clusters = Mapping[str, RegimeResult]
"""Results of one regime by cluster."""
_UNKNOWN = (np.nan, np.nan)
"""Bounds that no value is within, of a value of the paper that is not known to us."""


class FigureRow(NamedTuple):
    figure: str
    quantity: str
    paper: str
    form: str
    """How numbers are written, in the language of `str.format`."""
    bounds: tuple[float, float]
    """Bounds within which a value agrees with the paper's."""
    value: Callable[[Clusters], float]
    use: str
    """Whether the row is fitted, held out, a layout that was chosen, or neither of these."""
    otherwise: str
    """The verdict if the value is out of bounds."""

    def verdict(self, clusters: Clusters) -> str:
        low, high = self.bounds
        return f"reproduced ({self.use})" if low <= self.value(clusters) <= high else self.otherwise


class TextRow(NamedTuple):
    """A row without a number of ours that could agree or not."""

    figure: str
    quantity: str
    paper: str
    default: str
    regime: str
    verdict: str


def _arm(clusters: Clusters, cluster: str = "S1", arm: str = BASELINE.name) -> RegimeArm:
    return clusters[cluster].arms[arm]


def speed_of_largest(clusters: Clusters, arm: str = BASELINE.name) -> float:
    """Return the speed of 512 workers in % of 32 times that of 16."""
    base, largest = (
        _arm(clusters, f"{workers}", arm).steps_per_s for workers in (BASE_WORKERS, LARGEST_WORKERS)
    )
    return 100 * largest / base * BASE_WORKERS / LARGEST_WORKERS


def _share(part: str, op: str) -> Callable[[Clusters], float]:
    return lambda clusters: 100 * _arm(clusters).shares[op][part]


def _queues(clusters: Clusters) -> float:
    shares = _arm(clusters).shares.values()
    return 100 * float(np.mean([each["ps_queue"] + each["w_queue"] for each in shares]))


def _busy(role: str, cluster: str) -> Callable[[Clusters], float]:
    return lambda clusters: 100 * float(getattr(_arm(clusters, cluster), f"{role}_busy"))


def _rise(role: str) -> Callable[[Clusters], float]:
    return lambda clusters: _busy(role, "S6")(clusters) - _busy(role, "S1")(clusters)


def ps_proc_change(clusters: Clusters, cluster: str = "S1", arm: str = OFFLOAD.name) -> float:
    """Return the change by an arm of a step's `PS_proc` in per cent."""
    base = _arm(clusters, cluster).ps_proc_us_per_step
    return 100 * (_arm(clusters, cluster, arm).ps_proc_us_per_step / base - 1)


FIGURES: Sequence[FigureRow | TextRow] = (
    FigureRow(
        "1", "speed of 512 workers, of the ideal", "50 %", "{:.0f} %", (45, 55), speed_of_largest,
        "fitted", "shape only: about half is lost; the simulator carries more steps than the fit's model",
    ),
    TextRow(
        "Table 1", "parameters of R1 and R2", "0.9 and 150 million", "0.9 million (R1)",
        "0.9 million rows of 16 values (R1)", "R1 by construction; R2 is not simulated here",
    ),
    FigureRow(
        "4", "p99 of a push's RPC, of its median", "heavy tail", "× {:.1f}", (5, np.inf),
        lambda c: _arm(c).rpc_p99_us["push"] / _arm(c).rpc_p50_us["push"],
        "neither fitted nor chosen",
        "not reproduced: costs are constants, and nothing pauses hosts or the network",
    ),
    FigureRow(
        "4", "median of a push's RPC, of a pull's", "pushes are slower", "× {:.2f}", (1.02, np.inf),
        lambda c: _arm(c).rpc_p50_us["push"] / _arm(c).rpc_p50_us["pull"], "neither fitted nor chosen",
        "not reproduced: reads and writes cost the same, and no push waits for another RPC's result",
    ),
    FigureRow(
        "5", "PS_proc's share in pulls", "dominates, with N_tx", "{:.0f} %", (20, 100),
        _share("ps_proc", "pull"), "fitted", "not reproduced: too small beside the other metrics",
    ),
    FigureRow(
        "5", "PS_proc's share in pushes", "less than in pulls", "{:.0f} %", (20, 100),
        _share("ps_proc", "push"), "fitted", "not reproduced: too small beside the other metrics",
    ),
    FigureRow(
        "5", "PS_proc's share in pulls less that in pushes, points", "above 0", "{:+.1f}", (1, np.inf),
        lambda c: _share("ps_proc", "pull")(c) - _share("ps_proc", "push")(c), "neither fitted nor chosen",
        "not reproduced: reads and writes cost the same in the model",
    ),
    FigureRow(
        "5", "N_tx's share in pulls", "dominates, with PS_proc", "{:.0f} %", (20, 100),
        _share("n_tx", "pull"), "fitted", "not reproduced: too small beside the other metrics",
    ),
    FigureRow(
        "5", "share of the queues", "small", "{:.0f} %", (0, 20), _queues,
        "by giving each request a thread", "shape only: smaller than PS_proc and N_tx, but more than a fifth",
    ),
    FigureRow(
        "6", "request of a pull, B", "100–200", "{:.0f}", (100, 200), lambda c: _arm(c).request_bytes["pull"],
        "a chosen layout", "not reproduced: of another size",
    ),
    FigureRow(
        "6", "request of a push, B", "100–200", "{:.0f}", (100, 200), lambda c: _arm(c).request_bytes["push"],
        "a chosen layout",
        "not reproduced: a push carries its rows in one datagram, and the paper's in segments",
    ),
    FigureRow(
        "6", "answer to a pull, of one to a push", "far larger", "× {:.1f}", (5, np.inf),
        lambda c: _arm(c).response_bytes["pull"] / _arm(c).response_bytes["push"],
        "a chosen layout", "not reproduced: not far larger",
    ),
    FigureRow(
        "7a", "longest interval, of the median", "a few long ones", "× {:.0f}", (10, np.inf),
        lambda c: _arm(c).interval_max_us / _arm(c).interval_p50_us,
        "fitted, though nothing was rejected by it",
        "not reproduced: workers do not compute",
    ),
    FigureRow(
        "7b", "workers at a server within 1,000 µs, S1, median", "50–200", "{:.0f}", (50, 200),
        lambda c: _arm(c).callers[1], "fitted", "not reproduced: steps are too long",
    ),
    FigureRow(
        "7b", "the same in S6", "50–200", "{:.0f}", (50, 200), lambda c: _arm(c, "S6").callers[1],
        "neither fitted nor chosen", "shape only: of the paper's order, beyond its upper end",
    ),
    FigureRow(
        "§3.2", "arithmetic's share in a push's PS_proc", "at most 2.5 %", "{:+.1f} %", (-2.5, 2.5),
        lambda c: 100 * _arm(c).arithmetic, "by construction: it costs nothing in the model",
        "not reproduced: pushes and pulls meet servers that are busy otherwise",
    ),
    TextRow(
        "Table 2", "workers and servers of S1 to S6", "80 and 20 to 280 and 70", "the same", "the same",
        "by construction",
    ),
    FigureRow(
        "8", "servers' CPU in S1", "less than in S6", "{:.0f} %", _UNKNOWN, _busy("servers", "S1"),
        "held out", "no verdict (held out): the paper's value is not known to us",
    ),
    FigureRow(
        "8", "servers' CPU in S6", "90 %", "{:.0f} %", (85, 95), _busy("servers", "S6"), "held out",
        "not reproduced: the middle misses it; the fitted figures leave the level open",
    ),
    FigureRow(
        "8", "servers' CPU, S6 less S1, points", "rises", "{:+.0f}", (1, np.inf), _rise("servers"),
        "held out",
        "not reproduced: it does not rise",
    ),
    FigureRow(
        "8", "workers' CPU, S6 less S1, points", "falls", "{:+.0f}", (-np.inf, -1), _rise("workers"),
        "held out",
        "shape only (held out): it falls by less than a point",
    ),
    TextRow(
        "9", "delay of empty RPCs against connections", "grows linearly", "does not grow (epoll)",
        "grows linearly if a connection costs anything",
        "shape only (held out): the fit allows a slope of 0; see the table of predictions",
    ),
    TextRow(
        "10", "share of the updates by the top 20,000", "50 % (R1), 70 % (R2)", "50 %", "50 %",
        "by construction of the workload",
    ),
    FigureRow(
        "§4", "change of PS_proc by offload of the top 20,000", "-50 % (its prediction)", "{:+.0f} %",
        (-55, -45), ps_proc_change, "neither fitted nor chosen",
        "shape only: RPCs have hot and cold rows, and a server's time goes by RPCs",
    ),
)  # fmt: skip


def changes(clusters: Clusters, cluster: str, arm: str) -> Iterator[float]:
    """Yield the changes by an arm, in per cent: steps/s, PS_proc, servers' CPU a step, pulls and pushes."""
    base, other = _arm(clusters, cluster), _arm(clusters, cluster, arm)
    yield 100 * (other.steps_per_s / base.steps_per_s - 1)
    yield ps_proc_change(clusters, cluster, arm)
    yield 100 * (other.servers_busy / other.steps_per_s / (base.servers_busy / base.steps_per_s) - 1)
    yield 100 * (other.pull_ms / base.pull_ms - 1)
    yield 100 * (other.push_ms / base.push_ms - 1)
