"""Old names that users type or files contain, and new names. Errors state both; no name is converted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ARMS = {
    "neither": "baseline",
    "again": "repeat",
    "hot": "offload",
    "both": "offload-proxy",
    "none-again": "none-repeat",
}
SETTINGS = {
    "every": "period_s",
    "learn": "train_share",
    "most_load": "max_load",
    "network.late_us": "extra_delay_us",
    "network.outages.for_ms": "duration_ms",
    "network.outages.late_us": "extra_delay_us",
    "network.spells": "outages",
    "recovery.durable": "journal_sync",
    "virtual_time": "simulate_dedicated_switch",
    "workload.share": "hot_share",
    "workload.top": "hot_parameters",
}
"""Path of a setting in a TOML file, without positions -> new name of its last part."""
FIELDS = {"behind_ns": "max_lateness_ns", "owed": "unreplayed"}
"""Old name of a field of `run.json` -> new name."""
SCHEDULE_FIELDS = {"late_us": "extra_delay_us", "strikes": "injections"}
"""Old name of a field of a fault schedule -> new name."""


def expected(kind: str, new: str, old: str) -> str:
    return f"expected {kind} {new!r}, got its old name {old!r}"


def find_old(kind: str, names: Mapping[str, str], used_names: Iterable[str]) -> str | None:
    return next((expected(kind, names[name], name) for name in used_names if name in names), None)


def find_old_setting(path: Iterable[str | int]) -> str | None:
    """Return the message for the path of an old setting, ignoring list positions; None for other paths."""
    names = [part for part in path if isinstance(part, str)]
    new = SETTINGS.get(".".join(names))
    return None if new is None else expected("setting", new, names[-1])


def find_old_arm(used_names: Iterable[str], current_names: Iterable[str] = ()) -> str | None:
    """Return the message for the first old name of an arm; names in `current_names` do not count as old."""
    names = {old: new for old, new in ARMS.items() if old not in current_names}
    return find_old("arm", names, used_names)
