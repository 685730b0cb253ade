"""What is run for the figures: each stage a run with its own settings, or Fig. 9's measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from foundation.designs.arms import leading, measured
from foundation.designs.hotset import NAME
from studies.paper.packing import PARAMETERS, TOP

_ARMS = measured(NAME)
_ALL = [arm.name for arm in _ARMS]
_SCALED = [arm.name for arm in _ARMS if not arm.is_repetition]
_COMPARED = [arm.name for arm in _ARMS if arm.baseline is None or arm.is_repetition or arm == leading(NAME)]
"""The arm that the design is judged by, its baseline, and that again."""
_KEYS, _STEPS = 3_000, 4_000
"""Of the default run: keys a step, and steps of the trace, of which short runs take fewer."""
_SHORT: Mapping[str, Any] = {
    "arms": _COMPARED,
    "loads": [0.5],
    "rounds": 8,
    "calibration_s": 1.0,
    "empty_rpcs": 100,
    "virtual_time": False,
    "trace_steps": 1_500,
}
"""Enough for an interval, of few arms."""
_QUICK: Mapping[str, Any] = {
    **_SHORT,
    "rounds": 6,
    "profile_lanes": 300_000,
    "calibration_s": 0.5,
    "block_ms": 400,
    "discard_ms": 150,
    "block_steps": 50,
}
_R2 = {"parameters": 150_000_000, "share": 0.7}


@dataclass(frozen=True, slots=True)
class Stage:
    """One of them; `settings` are those of run.toml, and of Fig. 9 `rounds` and `most`."""

    name: str
    seconds: float
    """That it takes here (two cores, AMD EPYC), which the time left is told by."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_run: bool = True


def plan(quick: bool) -> list[Stage]:
    """All stages in order."""
    return [*_main(quick), *_map(quick), *_sweeps(quick)]


def map_plan(quick: bool) -> list[Stage]:
    """Those that the map takes; a quick one has no line along workers."""
    return [*_map(quick), *(() if quick else _scales())]


def _main(quick: bool) -> Iterator[Stage]:
    yield Stage("r1", 55, {**_QUICK, "arms": _ALL}) if quick else Stage("r1", 155)
    if not quick:
        yield Stage("r2", 110, {**_SHORT, "arms": _ALL, "trace_steps": 1000, "workload": _R2})
    fig_9 = {"rounds": 1, "most": 1024} if quick else {"rounds": 6, "most": 4096}
    yield Stage("connections", 50 if quick else 340, fig_9, is_run=False)


def _map(quick: bool) -> Iterator[Stage]:
    short, seconds = (_QUICK, 38) if quick else (_SHORT, 52)
    points = list(product((0.2, 0.6) if quick else (0.1, 0.3, 0.5, 0.7), (500, _KEYS)))
    if not quick:
        points.append((0.5, 1_200))
    for skew, keys in points:
        shape = {"parameters": PARAMETERS, "top": TOP, "share": skew, "keys_per_step": keys}
        steps = min(_STEPS, short["trace_steps"] * _KEYS // keys)
        settings = {**short, "top_k": TOP, "trace_steps": steps, "workload": shape}
        yield Stage(f"map-skew-{skew:g}-keys-{keys}", seconds, settings)


def _sweeps(quick: bool) -> Iterator[Stage]:
    if quick:
        return
    for top_k in (2_000, 8_000, 38_000, 100_000):
        settings = {**_SHORT, "top_k": top_k}
        yield Stage(f"top-k-{top_k}", 50 + top_k / 2_500, settings)
    yield from _scales()


def _scales() -> Iterator[Stage]:
    for workers, servers, seconds in ((1, 2, 63), (2, 2, 65), (8, 2, 75), (16, 4, 130)):
        steps = max(1_000, _STEPS // workers)
        setup = {"arms": _SCALED, "workers": workers, "servers": servers, "trace_steps": steps}
        yield Stage(f"scale-{workers}-{servers}", seconds, {**_SHORT, **setup})
