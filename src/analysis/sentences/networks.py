"""The switches and links of a run, and the ways that packets take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # settings have any type that TOML has

from analysis.record import RunRecord
from foundation.designs.arms import has_hot_set
from foundation.text import pluralize


def describe_network(config: Mapping[str, Any]) -> str:
    """Return the switches, and the bandwidths of links that have one."""
    switches, mbit = "one switch", config.get("cable_mbit", 0)
    if _is_leaf_spine(config):
        leaves = pluralize(config["leaves"], "leaf", "leaves")
        switches = f"{leaves} and {pluralize(config['spines'], 'spine')}"
    if not mbit:
        return switches
    oversubscription = f", oversubscription {config['oversubscription']:g}" if _is_leaf_spine(config) else ""
    return f"{switches}, cables of {mbit:g} Mbit/s{oversubscription}"


def network_notes(record: RunRecord) -> list[str]:
    """Return what makes the baseline of a run slower than its network has to be; none where nothing does."""
    config = record.config
    is_at_spine = _is_leaf_spine(config) and config.get("hot_sets") == "spine" and has_hot_set(record.design)
    if record.simulation is not None or not is_at_spine:
        return []
    return [
        "Without offload, too, requests pass the spine, also between two hosts of a leaf. Compare with a run "
        "with HOT_SETS=leaves, whose baseline takes the shortest ways."
    ]


def _is_leaf_spine(config: Mapping[str, Any]) -> bool:
    return config.get("topology") == "leaf-spine"
