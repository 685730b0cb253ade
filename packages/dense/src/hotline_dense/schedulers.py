"""Schedulers: which gradients to merge, and how many all-reduces to have under way.

MG-WFBP and ASC-WFBP merge as the later code of their authors does (lzhangbv/dear_pytorch at 43138d8,
`dear/hv_distributed_optimizer.py`, `_generate_groups_mgwfbp` and `_generate_groups_asc`). [ASC]'s full text
was not available: the choice of the `at_once` with the earliest end is our reading of its abstract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule, simulate
from hotline_dense.fusion import PRESETS, fuse
from hotline_dense.layers import Layers
from hotline_dense.search import beam

Scheduler = Callable[[Layers, AlphaBetaModel], GradientSchedule]
MIN_BUFFER_BYTES = 4 * 8192
"""Smallest buffer of MG-WFBP: 8,192 values of four bytes."""


def wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Send each gradient by itself, one after the other (wait-free back-propagation)."""
    return GradientSchedule("WFBP", tuple(range(len(layers.gradients()[0]))))


def fixed_buffers(layers: Layers, network: AlphaBetaModel, preset: str = "horovod-0.20") -> GradientSchedule:
    # Gradients and buffers are matched by the bytes up to their ends.
    sizes = layers.gradients()[0].cumsum().tolist()
    end_sizes = fuse(layers, PRESETS[preset])[0].cumsum().tolist()
    return GradientSchedule("fixed buffers", tuple(sizes.index(end) for end in end_sizes))


def mg_wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Merge where the link is busy or waiting costs less than α, and send one at a time (MG-WFBP)."""
    return GradientSchedule("MG-WFBP", _merge_gradients(layers, network, may_wait=True))


def asc_wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Merge if the next gradient is ready before the link is free; several all-reduces at once (ASC-WFBP)."""
    base_schedule = GradientSchedule("ASC-WFBP", _merge_gradients(layers, network, may_wait=False))
    schedules = [replace(base_schedule, at_once=at_once) for at_once in range(1, network.max_at_once + 1)]
    return min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)


def best(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    schedules = [beam(layers, network, at_once) for at_once in range(1, network.max_at_once + 1)]
    schedules += [scheduler(layers, network) for scheduler in SCHEDULERS.values() if scheduler is not best]
    fastest = min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)
    return replace(fastest, scheduler="best")


SCHEDULERS: dict[str, Scheduler] = {
    "wfbp": wfbp,
    "fixed": fixed_buffers,
    "mg-wfbp": mg_wfbp,
    "asc-wfbp": asc_wfbp,
    "best": best,
}


def _merge_gradients(layers: Layers, network: AlphaBetaModel, may_wait: bool) -> tuple[int, ...]:
    """Return `GradientSchedule.last_gradients`[b] of one all-reduce at a time.

    `may_wait` allows waits up to α.
    """
    sizes, ready_times = (each.tolist() for each in layers.gradients())
    last_gradients, free_at, buffer_bytes = list[int](), 0.0, 0
    for i, next_ready in enumerate(ready_times[1:]):
        buffer_bytes += sizes[i]
        start = max(free_at, ready_times[i])
        end = start + network.uncontended_us(buffer_bytes)
        merges = next_ready < end and (
            next_ready < start or (may_wait and next_ready - start < network.alpha_us)
        )
        if not merges and not (may_wait and buffer_bytes < MIN_BUFFER_BYTES):
            last_gradients.append(i)
            free_at, buffer_bytes = end, 0
    return (*last_gradients, len(sizes) - 1)
