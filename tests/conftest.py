"""Tests that need root or BMv2 are skipped, with the reason, where that is missing."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    no_bmv2 = shutil.which("simple_switch_grpc") is None
    for item in items:
        if item.get_closest_marker("mininet") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="needs root: `make test`"))
        if item.get_closest_marker("bmv2") and no_bmv2:
            item.add_marker(pytest.mark.skip(reason="not on PATH: simple_switch_grpc; see Vagrantfile"))
