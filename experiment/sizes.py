"""Defaults of a run that depend on its agents: what one kind carries is a thousand times what another does.

Whatever is named here has this default with that codec, with somebody's script, or where workers wait for
each other; a value that somebody sets is taken as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foundation.designs.registry import DEFAULT, DesignError, design
from foundation.logs.columns import CLOSED_LOOP

SIZES: Mapping[str, Mapping[str, Any]] = {
    "scapy": {
        # An RPC takes 3 ms of a worker and 2 of a server: 100 keys, of two servers, are 8 RPCs a step.
        "workload": {"parameters": 30_000, "top": 600, "keys_per_step": 100},
        "samples_per_step": 10,
        "trace_steps": 1_000,
        "top_k": 600,
        "profile_lanes": 20_000,
        # More would be sent again, after 20 ms and more, while it waits for the server.
        "window": 4,
        "calibration_s": 1.0,
        "budget_s": 70.0,
        "block_steps": 20,
        "empty_rpcs": 50,
    },
}
"""Codec -> setting -> its default; a table's settings each have their own."""

OF_SCRIPTS: Mapping[str, Any] = {
    # They go as fast as they can, through arms that take turns.
    "loads": [CLOSED_LOOP],
    "calibration_s": 0.5,
    # What no script does.
    "empty_rpcs": 0,
    "virtual_time": False,
}
"""The same of workers that are somebody's script."""

OF_LOCKSTEP: Mapping[str, Any] = {
    # Whoever is early waits for the others, so that a rate says nothing.
    "loads": [CLOSED_LOOP],
    # One alone would wait for ever, and these do not cost what an RPC costs.
    "empty_rpcs": 0,
    # There is no arm without offload to be compared with.
    "virtual_time": False,
}
"""The same of designs whose workers push together."""

STEP_PATIENCE_S: Mapping[str, float] = {"fast": 1.0, "scapy": 60.0}
"""Codec -> how long a step of a closed loop may take, whatever its size is, s."""


def with_sizes(given: Mapping[str, Any], codec: object) -> dict[str, Any]:
    """The settings that were given, with a codec's defaults for others, a script's, or a design's. What is
    wrong is left to be told."""
    sizes = SIZES.get(codec, {}) if isinstance(codec, str) else {}
    if given.get("script") is not None:
        sizes = OF_SCRIPTS
    elif _is_lockstep(given.get("design", DEFAULT)):
        sizes = {**sizes, **OF_LOCKSTEP}
    return {**given, **{name: _filled(given, name, size) for name, size in sizes.items()}}


def _is_lockstep(name: object) -> bool:
    try:
        return isinstance(name, str) and design(name).is_lockstep
    except DesignError:
        return False


def _filled(given: Mapping[str, Any], name: str, size: Any) -> Any:
    if name not in given:
        return size
    is_table = isinstance(size, Mapping) and isinstance(given[name], Mapping)
    return {**size, **given[name]} if is_table else given[name]
