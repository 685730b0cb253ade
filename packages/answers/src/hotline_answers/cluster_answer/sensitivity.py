"""Compute how an answer's gain in capacity changes if one of its inputs is smaller or larger.

A part of the cluster is simulated with the input and with another value of it; the ratio of both gains times
the answer's gain is the gain with that value. Gains with other sizes of the hot set are those that the answer
has simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiment.errors import ConfigError
from foundation.settings import Strict
from hosts.workload.trace import Trace, prefix_sums
from hotline_answers.cluster_answer.cluster import Cluster, Part, config_for, part_of, whole_cluster
from hotline_answers.cluster_answer.hotset import ReadLog
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts

PART_WORKERS = 8
"""Workers of the simulated part; eight values of inputs take less time than the rest of an answer."""
_BATCHES_PER_WORKER = 24
"""Mini-batches of a log that each simulated worker replays."""
_COST_FACTOR = 10
_ANY_RATE = 0.1  # learning rate, which has no effect on capacities, but takes time to be chosen
Gain = Callable[[SimulationConfig, ReadLog | None], float]
"""Returns the capacity with the hot set as a multiple of that without."""


class GainAtValue(Strict):
    value: str
    """Value of the input, with its unit."""
    gain: float
    """Capacity with the hot set as a multiple of that without."""


class InputEffect(Strict):
    """The gain in capacity with other values of one input; fewer than two if the cluster allows no more."""

    input: str
    value: str
    effects: tuple[GainAtValue, ...]

    @property
    def range(self) -> float:
        """Ratio of the largest to the smallest of these gains."""
        gains = [effect.gain for effect in self.effects]
        return max(gains) / min(gains) if gains else 1.0


class _Variant(NamedTuple):
    input: str
    value: str  # of the answer
    other_value: str
    cluster: Cluster
    change: Callable[[Trace], Trace] | None = None  # of a log


def input_effects(
    cluster: Cluster, log: ReadLog | None, keys_per_step: float, gain: float, top_k: int,
    memory: Sequence[tuple[int, float]], simulate: Gain,
) -> tuple[InputEffect, ...]:  # fmt: skip
    """Return the effects of five inputs, those that change the gain most first.

    `memory` has the gain of the sizes of the hot set next to `top_k`; `simulate` returns that of a workload.
    """
    part, short_log = input_part(cluster, log)
    reference = _simulate(cluster, part, short_log, top_k, simulate)
    effects: dict[tuple[str, str], list[GainAtValue]] = {}
    for variant in _variants(cluster, log, keys_per_step):
        shown = effects.setdefault((variant.input, variant.value), [])
        changed_log = short_log
        if short_log is not None and variant.change is not None:
            changed_log = short_log._replace(scored=variant.change(short_log.scored))
        try:
            other = _simulate(variant.cluster, part, changed_log, top_k, simulate)
        except (SimulationError, ConfigError):
            continue  # the switch has no ports for such a cluster, or simulations are not that large
        shown.append(GainAtValue(value=variant.other_value, gain=gain * other / reference))
    effects["hot keys", f"{top_k:,}"] = [
        GainAtValue(value=f"{size:,}", gain=of_size) for size, of_size in memory
    ]
    found = [
        InputEffect(input=name, value=value, effects=tuple(each)) for (name, value), each in effects.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.range))


def input_part(cluster: Cluster, log: ReadLog | None) -> tuple[Part, ReadLog | None]:
    """Return the part of a cluster that is simulated for each value of an input, and what it has of a log."""
    part = part_of(cluster, PART_WORKERS) if cluster.optimiser is None else whole_cluster(cluster)
    return part, None if log is None else _shorten(log, part.workers * _BATCHES_PER_WORKER)


def _simulate(cluster: Cluster, part: Part, log: ReadLog | None, top_k: int, simulate: Gain) -> float:
    return simulate(
        config_for(cluster, part).model_copy(update={"learning_rate": _ANY_RATE, "top_k": top_k}), log
    )


def _variants(cluster: Cluster, log: ReadLog | None, keys_per_step: float) -> Iterator[_Variant]:
    keys = f"{keys_per_step:,.0f}"
    if log is None:
        skew = f"{cluster.skew:.0%}"
        for share in (cluster.skew / 2, (1 + cluster.skew) / 2):
            yield _Variant("skew", skew, f"{share:.0%}", cluster.model_copy(update={"skew": share}))
        for number in (max(cluster.keys_per_step // 2, 1), 2 * cluster.keys_per_step):
            other = cluster.model_copy(update={"keys_per_step": number})
            yield _Variant("keys a step", keys, f"{number:,}", other)
    else:
        yield _Variant("skew", "the log's", "half of it at random", cluster, _flatten)
        yield _Variant("keys a step", keys, f"{keys_per_step / 2:,.0f}", cluster, _halve)
        yield _Variant("keys a step", keys, f"up to {2 * keys_per_step:,.0f}", cluster, _merge_pairs)
    costs = cluster.hosts or HostCosts()
    cheaper = {
        name: type(value)(value / _COST_FACTOR)
        for name, value in costs.model_dump().items()
        if name.endswith("_ns") and name != "slice_ns" and value
    }
    other = cluster.model_copy(update={"hosts": costs.model_copy(update=cheaper)})
    yield _Variant("costs of hosts", "as below", f"a {_COST_FACTOR}th of them", other)
    for servers in dict.fromkeys((max(cluster.servers // 2, 1), 2 * cluster.servers)):
        if servers != cluster.servers:
            other = cluster.model_copy(update={"servers": servers})
            yield _Variant("servers", f"{cluster.servers:,}", f"{servers:,}", other)


def _shorten(log: ReadLog, steps: int) -> ReadLog:
    """Return the log with at most the given number of scored mini-batches."""
    scored, steps = log.scored, min(log.scored.steps, steps)
    position = scored.position[: scored.key_start[steps]]
    short = replace(
        scored, steps=steps, key_start=scored.key_start[: steps + 1], position=position, samples=None
    )
    return log._replace(scored=short)


def _with_batches(trace: Trace, batches: Sequence[NDArray[np.integer]]) -> Trace:
    return replace(
        trace,
        steps=len(batches),
        key_start=prefix_sums([len(batch) for batch in batches]),
        position=np.concatenate(batches).astype(trace.position.dtype),
    )


def _batches(trace: Trace) -> list[NDArray[np.integer]]:
    return [trace.position[a:b] for a, b in zip(trace.key_start[:-1], trace.key_start[1:], strict=True)]


def _flatten(trace: Trace) -> Trace:
    """Return a trace in which half of the accesses have keys drawn at random from all keys."""
    random = np.random.default_rng(1)
    batches = []
    for batch in _batches(trace):
        drawn = random.integers(0, trace.space.size, len(batch))
        batches.append(np.unique(np.where(random.random(len(batch)) < 0.5, batch, drawn)))
    return _with_batches(trace, batches)


def _halve(trace: Trace) -> Trace:
    """Return a trace with two mini-batches in place of each, which have half of its keys."""
    halves = [half for batch in _batches(trace) for half in (batch[::2], batch[1::2])]
    return _with_batches(trace, [half for half in halves if len(half)])


def _merge_pairs(trace: Trace) -> Trace:
    """Return a trace with one mini-batch in place of two; the last one may be left as it is."""
    batches = _batches(trace)
    pairs = [np.unique(np.concatenate(batches[at : at + 2])) for at in range(0, len(batches), 2)]
    return _with_batches(trace, pairs)
