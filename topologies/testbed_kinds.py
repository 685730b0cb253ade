"""Find where a run is: on Mininet, or where a package puts it (entry points `hotline.testbeds`)."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from experiment.errors import ConfigError
from experiment.run_config import Config
from foundation.packages import install_hint
from topologies.mininet_testbed import MininetTestbed
from topologies.testbed import TestbedKind

_GROUP = "hotline.testbeds"
_MACHINES = "machines"  # name of the entry point for runs with the setting `machines`


def testbed_kind(config: Config) -> TestbedKind:
    if config.machines is None:
        return MininetTestbed()
    found = [each for each in entry_points(group=_GROUP) if each.name == _MACHINES]
    if not found:
        raise ConfigError(
            f"MACHINES={config.machines}: expected an installed package that runs on several machines, found "
            f"none{install_hint(_GROUP, _MACHINES)}"
        )
    return cast(TestbedKind, found[0].load())
