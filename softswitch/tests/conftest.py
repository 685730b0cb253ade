"""Tests of softswitch."""

from __future__ import annotations

import pytest

PLUGIN = "switch_harness.plugin"


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin, which the testbed's `conftest.py` has loaded where both projects run in one session."""
    config.pluginmanager.import_plugin(PLUGIN)
