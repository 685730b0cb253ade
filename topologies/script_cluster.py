"""Find what runs users' training scripts in a run: an entry point of the group `hotline.scripts`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import entry_points
from typing import TypeAlias, cast

from experiment.errors import ConfigError
from foundation.packages import install_hint
from topologies.fleet import RunContext
from topologies.running_cluster import RunningCluster

ScriptCluster: TypeAlias = Callable[[RunContext], AbstractAsyncContextManager[RunningCluster]]
_GROUP, _NAME = "hotline.scripts", "cluster"


def find_script_cluster() -> ScriptCluster:
    """Return what starts scripts and servers, and ends them; raise `ConfigError` if no package has it."""
    found = [each for each in entry_points(group="hotline.scripts") if each.name == _NAME]
    if not found:
        raise ConfigError(
            "SCRIPT: expected an installed package that runs scripts, found none"
            f"{install_hint(_GROUP, _NAME)}"
        )
    return cast(ScriptCluster, found[0].load())
