"""Compute how an answer's gain in capacity changes if one of its inputs has another value.

A part of the cluster is simulated with the input and with another value of it; the ratio of both gains times
the answer's gain is the gain with that value. Gains with other sizes of the hot set, and with rows of other
dims, are those that the answer has simulated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiment.errors import ConfigError
from experiment.run_config import max_top_k
from foundation.designs.collect import NAME as COLLECT
from foundation.optimisers import Adagrad
from foundation.protocol.header import LANES
from foundation.protocol.rows import RowRange
from foundation.settings import Strict
from hosts.workload.trace import Trace, prefix_sums
from hotline_answers.cluster_answer.arm_results import OffloadComparison
from hotline_answers.cluster_answer.cluster import (
    PART_WORKERS,
    Cluster,
    Part,
    config_for,
    max_workers,
    part_of,
    whole_cluster,
)
from hotline_answers.cluster_answer.dims import OTHER_DIMS
from hotline_answers.cluster_answer.hotset import ReadLog
from hotline_answers.cluster_answer.sentences import PLACES
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts
from hotline_simulator.devices import DEVICES

_BATCHES_PER_WORKER = 24
"""Mini-batches of a log that each simulated worker replays."""
_COST_FACTOR = 10
_ANY_RATE = 0.1  # learning rate, which has no effect on capacities, but takes time to be chosen
_ADDED_US = (10, 50)
"""Times in µs that are added to the cost of an RPC at a server."""
_BYPASS = {"wake_ns": 0, "idle_ns": 0, "send_ns": 100, "take_ns": 100}
"""Costs of hosts that poll their network cards and bypass the kernel: an assumption."""
_DIMS = (1, *OTHER_DIMS)
JOURNAL_SHARE = 0.419
"""Further CPU time of a server with a journal, `journal_sync = never`: results/recovery.json, `baseline`."""
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

    def range_with(self, gain: float) -> float:
        """Return the ratio of the largest to the smallest of these gains and the given one, the answer's."""
        gains = [gain, *(effect.gain for effect in self.effects)]
        return max(gains) / min(gains)


class _Variant(NamedTuple):
    input: str
    value: str  # of the answer
    other_value: str
    cluster: Cluster
    change: Callable[[Trace], Trace] | None = None  # of a log
    lanes: int | None = None  # of an RPC that the switch reads; None means those of the cluster's switch


def input_effects(
    cluster: Cluster, log: ReadLog | None, keys_per_step: float, comparison: OffloadComparison,
    known: Mapping[tuple[str, str], Sequence[GainAtValue]], simulate: Gain,
) -> tuple[InputEffect, ...]:  # fmt: skip
    """Return the effects of inputs, those that change the gain most first.

    `known` has effects by input and value that the answer has simulated; `simulate` returns the gain of a
    configuration.
    """
    part, short_log = input_part(cluster, log)
    reference = _simulate(cluster, part, short_log, comparison.top_k, simulate)
    effects: dict[tuple[str, str], list[GainAtValue]] = {}
    for variant in _variants(cluster, log, keys_per_step):
        shown = effects.setdefault((variant.input, variant.value), [])
        changed_log = short_log
        if short_log is not None and variant.change is not None:
            changed_log = short_log._replace(scored=variant.change(short_log.scored))
        try:
            other = _simulate(variant.cluster, part, changed_log, comparison.top_k, simulate, variant.lanes)
        except (SimulationError, ConfigError):
            continue  # the switch has no ports for such a cluster, or simulations are not that large
        shown.append(GainAtValue(value=variant.other_value, gain=comparison.gain * other / reference))
    shown_effects = {
        **effects,
        **known,
        **_optimiser_effect(cluster, log, keys_per_step, comparison.top_k, simulate),
    }
    found = [
        InputEffect(input=name, value=value, effects=tuple(each))
        for (name, value), each in shown_effects.items()
    ]
    return tuple(sorted(found, key=lambda each: -each.range_with(comparison.gain)))


def _optimiser_effect(
    cluster: Cluster, log: ReadLog | None, keys_per_step: float, top_k: int, simulate: Gain
) -> dict[tuple[str, str], list[GainAtValue]]:
    """Return the gain with Adagrad, or without an optimiser if the cluster has one.

    Collections take time by the second and not by the RPC, so a part of the cluster would not do.
    """
    if DEVICES[cluster.switch].lanes < LANES or cluster.workers > max_workers(cluster, keys_per_step):
        return {}
    other, value, other_value = (
        (Adagrad(), "none", Adagrad().name)
        if cluster.optimiser is None
        else (None, cluster.optimiser.name, "none")
    )
    changed = cluster.model_copy(update={"optimiser": other})
    try:
        gain = _simulate(changed, whole_cluster(cluster), log, top_k, simulate)
    except (SimulationError, ConfigError):
        return {}  # a design with an optimiser does not have such rows
    return {("optimiser", value): [GainAtValue(value=other_value, gain=gain)]}


def input_part(cluster: Cluster, log: ReadLog | None) -> tuple[Part, ReadLog | None]:
    """Return the part of a cluster that is simulated for each value of an input, and what it has of a log."""
    part = whole_cluster(cluster) if cluster.is_indivisible else part_of(cluster, PART_WORKERS)
    return part, None if log is None else _shorten(log, part.workers * _BATCHES_PER_WORKER)


def _simulate(
    cluster: Cluster, part: Part, log: ReadLog | None, top_k: int, simulate: Gain, lanes: int | None = None
) -> float:
    config = config_for(cluster, part)
    changes: dict[str, object] = {"learning_rate": _ANY_RATE, "top_k": top_k}
    read_lanes = lanes or config.network.switch_lanes
    if top_k > (fitting := max_top_k(1, cluster.min_dim) * read_lanes // LANES):
        raise SimulationError(f"top_k ({top_k:,}): expected at most {fitting:,} with {read_lanes} lanes")
    if lanes is not None:
        changes["network"] = config.network.model_copy(update={"switch_lanes": lanes, "cold_lanes": 0})
    return simulate(config.model_copy(update=changes), log)


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
    for servers in dict.fromkeys((max(cluster.servers // 2, 1), 2 * cluster.servers)):
        if servers != cluster.servers:
            other = cluster.model_copy(update={"servers": servers})
            yield _Variant("servers", f"{cluster.servers:,}", f"{servers:,}", other)
    if cluster.dim is not None and not cluster.dims and DEVICES[cluster.switch].has_rows:
        at = bisect_left(_DIMS, cluster.dim)
        for dim in sorted({*_DIMS[max(at - 1, 0) : at + 2]} - {cluster.dim})[:2]:
            other = cluster.model_copy(update={"dim": dim})
            yield _Variant("values of a row", f"{cluster.dim}", f"{dim}", other, partial(_with_dim, dim=dim))
    yield from _host_variants(cluster)
    if cluster.leaves is not None:
        for place in PLACES:
            if place != cluster.placement:
                other = cluster.model_copy(update={"placement": place})
                yield _Variant("hot set", PLACES[cluster.placement], f"it {PLACES[place]}", other)
    if DEVICES[cluster.switch].lanes == LANES and cluster.design != COLLECT:
        yield _Variant("lanes", f"{LANES}", f"{LANES // 2}", cluster, lanes=LANES // 2)


def _host_variants(cluster: Cluster) -> Iterator[_Variant]:
    costs = cluster.hosts or HostCosts()

    def with_costs(input_name: str, value: str, other_value: str, changes: Mapping[str, object]) -> _Variant:
        changed = costs.model_copy(update=changes)
        return _Variant(input_name, value, other_value, cluster.model_copy(update={"hosts": changed}))

    for added_us in () if costs.measured else _ADDED_US:  # measured times of a server are drawn as they are
        dearer = {"serve_ns": costs.serve_ns + 1_000 * added_us}
        yield with_costs("cost of an RPC", "as below", f"{added_us} µs more", dearer)
    cheaper = {
        name: type(value)(value / _COST_FACTOR)
        for name, value in costs.model_dump().items()
        if name.endswith("_ns") and name != "slice_ns" and value
    }
    yield with_costs("costs of hosts", "as below", f"a {_COST_FACTOR}th of them", cheaper)
    bypass = {name: min(getattr(costs, name), cost) for name, cost in _BYPASS.items()}
    yield with_costs("host stack", "as below", "kernel bypass", bypass)
    if costs.measured:
        return
    of_rpc = costs.serve_ns + costs.send_ns
    journal = {
        "serve_ns": costs.serve_ns + round(JOURNAL_SHARE * of_rpc),
        "lane_ns": round((1 + JOURNAL_SHARE) * costs.lane_ns),
        "value_ns": (1 + JOURNAL_SHARE) * costs.value_ns,
    }
    yield with_costs("durability", "none", "journals", journal)


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


def _with_dim(trace: Trace, dim: int) -> Trace:
    return replace(trace, space=replace(trace.space, ranges=(RowRange(0, dim),)))


def _halve(trace: Trace) -> Trace:
    """Return a trace with two mini-batches in place of each, which have half of its keys."""
    halves = [half for batch in _batches(trace) for half in (batch[::2], batch[1::2])]
    return _with_batches(trace, [half for half in halves if len(half)])


def _merge_pairs(trace: Trace) -> Trace:
    """Return a trace with one mini-batch in place of two; the last one may be left as it is."""
    batches = _batches(trace)
    pairs = [np.unique(np.concatenate(batches[at : at + 2])) for at in range(0, len(batches), 2)]
    return _with_batches(trace, pairs)
