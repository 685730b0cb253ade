"""Tests of softswitch."""

pytest_plugins = ["switch_harness.plugin"]
