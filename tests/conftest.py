"""Tests of the testbed."""

pytest_plugins = ["switch_harness.plugin"]
