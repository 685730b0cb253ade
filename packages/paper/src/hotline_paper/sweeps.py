"""Figures of runs that differ in one setting: top-k, skew, keys per step, or the number of workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from analysis.figures.model import Axis, Figure, Panel, Series, colour_of
from analysis.record import Block
from foundation.designs.arms import arms_in_order
from foundation.designs.hotset import BASELINE, OFFLOAD
from hotline_paper.costs import MeasuredRun
from hotline_paper.map import TITLES
from hotline_paper.numbers import CHANGE_METRICS

METRIC_TITLES = {
    "pull_mean": "mean pull, µs",
    "rpc_mean": "mean RPC, µs",
    "ps_proc_cpu_us_per_step": "PS_proc, µs of CPU a step",
    "ps_packets_per_step": "packets to the servers a step",
}


def sweeps(runs: Mapping[str, MeasuredRun]) -> Iterator[Figure]:
    top_k_runs, scale_runs, map_runs = (
        [run for name, run in runs.items() if name.startswith(prefix)]
        for prefix in ("top-k-", "scale-", "map-")
    )
    if top_k_runs:
        title, x_label = "What the size of the hot set changes", "parameters in the switch (top-k)"
        yield sweep(top_k_runs, "sweep-top-k", title, x_label, lambda run: run.config.top_k)
    if map_runs:
        skew_runs, key_runs = _runs_along_map_axes(map_runs)
        title, x_label = "What skew changes", "share of the updates that the top 2 % of the parameters take"
        yield sweep(skew_runs, "sweep-skew", title, x_label, _skew)
        title, x_label = "What the size of a step changes", "keys a step"
        yield sweep(key_runs, "sweep-keys", title, x_label, _keys)
    if scale_runs:
        title = "What the number of workers changes"
        yield sweep(scale_runs, "sweep-workers", title, "workers", _workers)
        yield changes_by_workers(scale_runs)
        yield utilisation(scale_runs)


def _runs_along_map_axes(map_runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
    largest_keys = max(map(_keys, map_runs))
    skew_counts = Counter(map(_skew, map_runs))
    # The skew with the most runs; of several such skews, the largest.
    skew = max(skew_counts, key=lambda each: (skew_counts[each], each))
    return [run for run in map_runs if _keys(run) == largest_keys], [
        run for run in map_runs if _skew(run) == skew
    ]


def changes_by_workers(runs: Sequence[MeasuredRun]) -> Figure:
    ordered_runs = sorted(runs, key=_workers)
    return Figure(
        "map-workers",
        "What offload changes, by the number of workers",
        Axis("workers", is_log=True),
        Axis("change, in % of the baseline", is_share=True),
        [
            Panel(TITLES[quantity], [_change(ordered_runs, metric)])
            for quantity, metric in CHANGE_METRICS.items()
        ],
        kind="points",
        caption="The number of workers changes how long requests and answers wait, but not the packing "
        "of keys into RPCs. Bars are 95 % intervals; below 0, offload is an improvement.",
    )


def _change(runs: Sequence[MeasuredRun], metric: str) -> Series:
    changes = [run.difference(metric) for run in runs]
    # An unknown bound is NaN.
    low, value, high = np.array(
        [(each.ratio_low, each.ratio, each.ratio_high) for each in changes], dtype=np.float64
    ).T
    x = np.array([run.config.workers for run in runs], dtype=np.float64)
    return Series(
        f"{OFFLOAD.name} against {BASELINE.name}", x, value, colour_of(OFFLOAD.name, 1), low=low, high=high
    )


def _workers(run: MeasuredRun) -> float:
    return run.config.workers


def _skew(run: MeasuredRun) -> float:
    return run.config.workload.hot_share


def _keys(run: MeasuredRun) -> float:
    return run.config.workload.keys_per_step


def sweep(
    runs: Sequence[MeasuredRun],
    name: str,
    title: str,
    x_label: str,
    setting_of: Callable[[MeasuredRun], float],
) -> Figure:
    ordered_runs = sorted(runs, key=setting_of)
    x = np.array([setting_of(run) for run in ordered_runs], dtype=np.float64)
    return Figure(
        name,
        title,
        Axis(x_label, is_log=True),
        Axis("value, in the unit of the panel's title", is_log=True),
        [Panel(label, _series(ordered_runs, x, metric)) for metric, label in METRIC_TITLES.items()],
        kind="points",
        caption="Each run is at half the capacity of its slowest arm; bars are 95 % intervals of the "
        f"difference to {BASELINE.name}.",
    )


def _series(runs: Sequence[MeasuredRun], x: np.ndarray, metric: str) -> list[Series]:
    comparisons = [run.difference(metric) for run in runs]
    baseline_values = np.array([each.reference for each in comparisons])
    offload_values = np.array([each.value for each in comparisons])
    # An end that is unknown is drawn at the baseline's value.
    low, high = (
        baseline_values * (1 + np.array([ratio or 0.0 for ratio in ratios]))
        for ratios in zip(*((each.ratio_low, each.ratio_high) for each in comparisons), strict=True)
    )
    return [
        Series(BASELINE.name, x, baseline_values, colour_of(BASELINE.name, 0)),
        Series(OFFLOAD.name, x, offload_values, colour_of(OFFLOAD.name, 1), low=low, high=high),
    ]


_UTILISATION = (
    "Pan et al. Fig. 8, as far as one machine can show it. In the paper the workers' CPU use falls with "
    "scale and the servers' rises to 90 %. Here all workers share one core and all servers another, and the "
    "load is half of the machine's capacity, so neither changes with scale as in the paper. CPU time of the "
    "switch's program is attributed to the sender of the frame."
)


def utilisation(runs: Sequence[MeasuredRun]) -> Figure:
    """Draw Pan et al. Fig. 8: CPU time of workers and servers against the number of workers, in cores."""
    ordered_runs = sorted(runs, key=lambda run: (run.config.workers, run.config.servers))
    x = np.array([run.config.workers for run in ordered_runs], dtype=np.float64)
    arms = arms_in_order(block.arm for run in runs for block in run.record.blocks)
    panels = []
    for arm in (arm.name for arm in arms if not arm.is_repetition):
        blocks = [[block for block in run.record.blocks if block.arm == arm] for run in ordered_runs]
        if all(blocks):
            shares_by_role = {
                "workers": [_cpu_share([block.worker_cpu_s for block in each], each) for each in blocks],
                "servers": [_cpu_share([block.servers.cpu_s for block in each], each) for each in blocks],
            }
            series = [
                Series(name, x, np.array(values), colour_of(name, index))
                for index, (name, values) in enumerate(shares_by_role.items())
            ]
            panels.append(Panel(arm, series))
    return Figure(
        "fig-08",
        "CPU of workers and servers against scale",
        Axis("workers", is_log=True),
        Axis("CPU time, as a share of one core", is_share=True),
        panels,
        kind="points",
        caption=_UTILISATION,
    )


def _cpu_share(cpu_s: Sequence[float], blocks: Sequence[Block]) -> float:
    seconds = sum(block.duration_ms for block in blocks) / 1e3
    return sum(cpu_s) / seconds if seconds else float("nan")
