"""Default settings by codec, script or design (codecs differ 1,000-fold in speed); explicit settings win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from foundation.designs.registry import DEFAULT, DesignError, design
from foundation.logs.columns import CLOSED_LOOP

Settings: TypeAlias = Mapping[str, Any]
"""Settings before validation, whose values have any type that TOML has."""

_SCAPY_DEFAULTS: Settings = {
    # An RPC takes 1 ms of a worker and 1 ms of a server; 100 keys at two servers are 8 RPCs per step.
    "workload": {"parameters": 30_000, "hot_parameters": 600, "keys_per_step": 100},
    "samples_per_step": 10,
    "trace_steps": 1_000,
    "top_k": 600,
    "profile_lanes": 20_000,
    # With a larger window, RPCs would be retransmitted after 20 ms while they wait for the server.
    "window": 4,
    "calibration_s": 1.0,
    "budget_s": 70.0,
    "block_steps": 20,
    "empty_rpcs": 50,
}
CODEC_DEFAULTS: Mapping[str, Settings] = {"scapy": _SCAPY_DEFAULTS, "mixed": _SCAPY_DEFAULTS}
"""Codec -> setting -> default; tables have a default for each of their settings."""

SCRIPT_DEFAULTS: Settings = {
    # Scripts run as fast as they can, in a closed loop.
    "loads": [CLOSED_LOOP],
    "calibration_s": 0.5,
    # Scripts send no empty RPCs.
    "empty_rpcs": 0,
    "simulate_dedicated_switch": False,
}

LOCKSTEP_DEFAULTS: Settings = {
    # Workers wait for each other, so they cannot follow an offered rate.
    "loads": [CLOSED_LOOP],
    # Empty RPCs are sent by one worker at a time, which would wait for the others forever.
    "empty_rpcs": 0,
    # There is no arm without offload to compare with.
    "simulate_dedicated_switch": False,
}

MAX_STEP_S: Mapping[str, float] = {"fast": 1.0, "scapy": 60.0, "mixed": 60.0}
"""Codec -> maximum duration of a step in a closed loop, in s."""


PRECISE_DEFAULTS: Settings = {"budget_s": 600.0}
"""Setting -> default of runs that last until intervals are narrow."""

_DEPENDENT: Settings = {
    **SCRIPT_DEFAULTS,
    **LOCKSTEP_DEFAULTS,
    **PRECISE_DEFAULTS,
    **{name: default for defaults in CODEC_DEFAULTS.values() for name, default in defaults.items()},
}
"""Settings whose default depends on others, with a default of any."""


def with_defaults(given: Settings, codec: object) -> dict[str, Any]:
    defaults = CODEC_DEFAULTS.get(codec, {}) if isinstance(codec, str) else {}
    if given.get("script") is not None:
        defaults = SCRIPT_DEFAULTS
    elif _is_lockstep(given.get("design", DEFAULT)):
        defaults = {**defaults, **LOCKSTEP_DEFAULTS}
    if _is_true(given.get("precise")):
        defaults = {**defaults, **PRECISE_DEFAULTS}
    return {**given, **{name: _with_default(given, name, default) for name, default in defaults.items()}}


def _is_true(value: object) -> bool:
    try:
        return TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return False


def _is_lockstep(name: object) -> bool:
    try:
        return isinstance(name, str) and design(name).is_lockstep
    except DesignError:
        return False


def _with_default(given: Settings, name: str, default: Any) -> Any:
    if name not in given:
        return default
    is_table = isinstance(default, Mapping) and isinstance(given[name], Mapping)
    return {**default, **given[name]} if is_table else given[name]


def changed_settings(given: Settings, defaults: Settings) -> dict[str, Any]:
    """Return the settings of a file that lists all defaults, without those that it leaves as they are.

    Those do not count as chosen, because some suit one design or target only. A setting whose default depends
    on others is chosen whatever its value.
    """
    return _changed(given, defaults, _DEPENDENT)


def _changed(given: Settings, defaults: Settings, dependent: Settings) -> dict[str, Any]:
    changed = {}
    for name, value in given.items():
        default = defaults.get(name)
        if isinstance(value, Mapping) and isinstance(default, Mapping):
            if table := _changed(value, default, dependent.get(name, {})):
                changed[name] = table
        elif name not in defaults or name in dependent or value != default:
            changed[name] = value
    return changed
