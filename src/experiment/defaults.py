"""Default settings by codec (1,000-fold apart in speed), switch, script or design; explicit settings win."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from controller.sizes import SLOTS
from foundation.designs.registry import DEFAULT, DesignError, described_design
from foundation.logs.columns import CLOSED_LOOP
from foundation.protocol.header import DIMS, LANES, padded_dim
from foundation.protocol.rows import banks_of_row
from hosts.workload import criteo
from hosts.workload.generator import R1

TOP_K = 20_000
"""Default size of the hot set, in rows."""
CABLE_QUEUE_KB = 1024.0
"""Capacity of the queue before a cable with a bandwidth, in 1,024 bytes."""
_HOT_SETS = 3

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

TARGET_DEFAULTS: Mapping[str, Settings] = {
    # A port's queue holds 64 frames, and BMv2 drops the others: RPCs of 16 workers fit into one server's.
    "bmv2": {"window": 4},
}
"""Switch -> setting -> default."""

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

MAX_VALUES_OF_MODEL = 2**24
"""Values of all rows of the built-in workload: each worker's ledger has one for each arm."""


def default_top_k(dim: int, maximum: int = TOP_K) -> int:
    """Return the default size of the hot set of a run whose longest rows have `dim` values.

    The hot sets of both arms that have one, and that of the profile, fit into the switch.
    """
    rows = LANES * SLOTS // banks_of_row(padded_dim(dim))
    return min(maximum, rows // _HOT_SETS * 7 // 8)


def row_defaults(dim: int, of_codec: Settings) -> Settings:
    """Return the defaults of a run with rows of `dim` values, more than one, and with those of its codec."""
    padded, workload = padded_dim(dim), of_codec.get("workload", {})
    parameters = min(workload.get("parameters", R1.parameters), MAX_VALUES_OF_MODEL // padded)
    return {
        **of_codec,
        "top_k": default_top_k(dim, of_codec.get("top_k", TOP_K)),
        "workload": {**workload, "parameters": parameters},
    }


_DEPENDENT: Settings = {
    **SCRIPT_DEFAULTS,
    **LOCKSTEP_DEFAULTS,
    **PRECISE_DEFAULTS,
    **{name: default for defaults in TARGET_DEFAULTS.values() for name, default in defaults.items()},
    **{name: default for defaults in CODEC_DEFAULTS.values() for name, default in defaults.items()},
}
"""Settings whose default depends on others, with a default of any."""


def with_defaults(given: Settings, codec: object) -> dict[str, Any]:
    defaults = CODEC_DEFAULTS.get(codec, {}) if isinstance(codec, str) else {}
    if given.get("script") is not None:
        defaults = SCRIPT_DEFAULTS
    elif _is_lockstep(given.get("design", DEFAULT)):
        defaults = {**defaults, **LOCKSTEP_DEFAULTS}
    elif (dim := criteo.MAX_DIM if given.get("tables") == "criteo" else _dim_of(given)) > 1:
        defaults = row_defaults(dim, defaults)
    target = given.get("target")
    if isinstance(target, str):
        defaults = {**defaults, **TARGET_DEFAULTS.get(target, {})}
    if _is_true(given.get("precise")):
        defaults = {**defaults, **PRECISE_DEFAULTS}
    return {**given, **{name: _with_default(given, name, default) for name, default in defaults.items()}}


def _dim_of(given: Settings) -> int:
    """Return a valid dim other than 1, or 1."""
    try:
        dim = TypeAdapter(int).validate_python(given.get("dim", 1))
    except ValidationError:
        return 1
    return dim if dim in range(1, DIMS[-1] + 1) else 1


def _is_true(value: object) -> bool:
    try:
        return TypeAdapter(bool).validate_python(value)
    except ValidationError:
        return False


def _is_lockstep(name: object) -> bool:
    try:
        return isinstance(name, str) and described_design(name).is_lockstep
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
