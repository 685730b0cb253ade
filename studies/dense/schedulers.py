"""Which gradients to merge and how many all-reduces to have under way: schedulers of one signature.

MG-WFBP and ASC-WFBP merge as the later code of their authors does (lzhangbv/dear_pytorch at 43138d8,
`dear/hv_distributed_optimizer.py`, `_generate_groups_mgwfbp` and `_generate_groups_asc`). The paper of [ASC]
was not at hand: that it has as many under way as promise the earliest end is our reading of its abstract.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from studies.dense.fusion import PRESETS, fuse
from studies.dense.layers import Layers
from studies.dense.play import Collectives, Plan, play
from studies.dense.search import beam

Scheduler = Callable[[Layers, Collectives], Plan]
"""Layers and network -> what is merged, and how many are sent at once."""
SMALL_VALUES = 8192
"""MG-WFBP never sends fewer by themselves; of four bytes each."""


def wfbp(layers: Layers, network: Collectives) -> Plan:
    """Wait-free back-propagation: each gradient by itself, one after the other."""
    return Plan("WFBP", tuple(range(len(layers.gradients()[0]))))


def fixed(layers: Layers, network: Collectives, preset: str = "horovod-0.20") -> Plan:
    """Fusion buffers that know neither layers nor network."""
    sizes = layers.gradients()[0].cumsum().tolist()
    ends = fuse(layers, PRESETS[preset])[0].cumsum().tolist()
    return Plan("fixed buffers", tuple(sizes.index(end) for end in ends))


def mg_wfbp(layers: Layers, network: Collectives) -> Plan:
    """Merged-gradient WFBP: one at a time, merged where the link is busy or waiting costs less than α."""
    return Plan("MG-WFBP", _merged(layers, network, waits=True))


def asc_wfbp(layers: Layers, network: Collectives) -> Plan:
    """ASC-WFBP: merged only where the next is ready before the link is free, and several at once."""
    merged = Plan("ASC-WFBP", _merged(layers, network, waits=False))
    plans = [replace(merged, at_once=at_once) for at_once in range(1, network.most + 1)]
    return min(plans, key=lambda plan: play(layers, network, plan).end_us)


def best(layers: Layers, network: Collectives) -> Plan:
    """The best that is known: a beam over all that can be merged, beside what the others do."""
    others = [scheduler(layers, network) for scheduler in SCHEDULERS.values() if scheduler is not best]
    plans = [beam(layers, network, at_once) for at_once in range(1, network.most + 1)] + others
    found = min(plans, key=lambda plan: play(layers, network, plan).end_us)
    return replace(found, scheduler="best")


SCHEDULERS: dict[str, Scheduler] = {
    "wfbp": wfbp,
    "fixed": fixed,
    "mg-wfbp": mg_wfbp,
    "asc-wfbp": asc_wfbp,
    "best": best,
}
"""By the names that the command line has."""


def _merged(layers: Layers, network: Collectives, waits: bool) -> tuple[int, ...]:
    """Where buffers end, if each is sent when the one before has ended; [b], as `Plan.lasts`."""
    sizes, ready = (each.tolist() for each in layers.gradients())
    lasts, free, held = list[int](), 0.0, 0
    for i, next_ready in enumerate(ready[1:]):
        held += sizes[i]
        start = max(free, ready[i])
        end = start + network.alone_us(held)
        merges = next_ready < end and (
            next_ready < start or (waits and next_ready - start < network.alpha_us)
        )
        if not merges and not (waits and held < 4 * SMALL_VALUES):
            lasts.append(i)
            free, held = end, 0
    return (*lasts, len(sizes) - 1)
