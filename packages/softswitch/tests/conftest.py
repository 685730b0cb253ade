"""Tests of softswitch."""

from __future__ import annotations

import pytest

PLUGIN = "switch_harness.plugin"


def pytest_configure(config: pytest.Config) -> None:
    """Load the plugin; in a session of both projects the testbed's `conftest.py` has done so."""
    config.pluginmanager.import_plugin(PLUGIN)
