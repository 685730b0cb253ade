"""The stages behind the figures: runs with different settings, and Fig. 9's measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from foundation.designs.arms import lead_arm, measured_arms
from foundation.designs.hotset import NAME as HOTSET
from hotline_paper.packing import PARAMETERS, TOP_PARAMETERS

_ARMS = measured_arms(HOTSET)
_ALL_ARMS = [arm.name for arm in _ARMS]
_SCALE_ARMS = [arm.name for arm in _ARMS if not arm.is_repetition]
_COMPARED_ARMS = [
    arm.name for arm in _ARMS if arm.reference is None or arm.is_repetition or arm == lead_arm(HOTSET)
]
_KEYS, _STEPS = 3_000, 4_000
"""Keys per step and steps of the trace in the default run; short runs have fewer steps."""
_TRACE_STEPS = 1_500
_SHORT_RUN: Mapping[str, object] = {
    "arms": _COMPARED_ARMS,
    "loads": [0.5],
    "rounds": 8,
    "calibration_s": 1.0,
    "empty_rpcs": 100,
    "simulate_dedicated_switch": False,
    "trace_steps": _TRACE_STEPS,
}
_QUICK_RUN: Mapping[str, object] = {
    **_SHORT_RUN,
    "rounds": 6,
    "profile_lanes": 300_000,
    "calibration_s": 0.5,
    "block_ms": 400,
    "discard_ms": 150,
    "block_steps": 50,
}
# Workload R2 of Pan et al., where it differs from the default, R1.
_R2 = {"parameters": 150_000_000, "hot_share": 0.7}


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    seconds: float
    """Duration on two cores of an AMD EPYC, from which the remaining time is estimated."""
    settings: Mapping[str, object] = field(default_factory=dict)
    is_run: bool = True  # False for the measurement of Fig. 9


def all_stages(quick: bool) -> list[Stage]:
    sweeps = [] if quick else [*_top_k_stages(), *_scale_stages()]
    return [*_main_stages(quick), *_map_stages(quick), *sweeps]


def map_stages(quick: bool) -> list[Stage]:
    return [*_map_stages(quick), *(() if quick else _scale_stages())]


def _main_stages(quick: bool) -> Iterator[Stage]:
    r1_quick = Stage("r1", seconds=55, settings={**_QUICK_RUN, "arms": _ALL_ARMS})
    yield r1_quick if quick else Stage("r1", seconds=155)
    if not quick:
        settings = {**_SHORT_RUN, "arms": _ALL_ARMS, "trace_steps": 1000, "workload": _R2}
        yield Stage("r2", seconds=110, settings=settings)
    fig_9 = {"rounds": 1, "max-connections": 1024} if quick else {"rounds": 6, "max-connections": 4096}
    yield Stage("connections", seconds=50 if quick else 340, settings=fig_9, is_run=False)


def _map_stages(quick: bool) -> Iterator[Stage]:
    base, seconds = (_QUICK_RUN, 38) if quick else (_SHORT_RUN, 52)
    points = list(product((0.2, 0.6) if quick else (0.1, 0.3, 0.5, 0.7), (500, _KEYS)))
    if not quick:
        points.append((0.5, 1_200))
    for skew, keys in points:
        shape = {
            "parameters": PARAMETERS, "hot_parameters": TOP_PARAMETERS,
            "hot_share": skew, "keys_per_step": keys,
        }  # fmt: skip
        # With fewer keys per step more steps make a trace of as many updates.
        steps = min(_STEPS, _TRACE_STEPS * _KEYS // keys)
        settings = {**base, "top_k": TOP_PARAMETERS, "trace_steps": steps, "workload": shape}
        yield Stage(f"map-skew-{skew:g}-keys-{keys}", seconds, settings)


def _top_k_stages() -> Iterator[Stage]:
    for top_k in (2_000, 8_000, 38_000, 100_000):
        settings = {**_SHORT_RUN, "top_k": top_k}
        yield Stage(f"top-k-{top_k}", seconds=50 + top_k / 2_500, settings=settings)


def _scale_stages() -> Iterator[Stage]:
    for workers, servers, seconds in ((1, 2, 63), (2, 2, 65), (8, 2, 75), (16, 4, 130)):
        steps = max(1_000, _STEPS // workers)
        setup = {"arms": _SCALE_ARMS, "workers": workers, "servers": servers, "trace_steps": steps}
        yield Stage(f"scale-{workers}-{servers}", seconds, {**_SHORT_RUN, **setup})
