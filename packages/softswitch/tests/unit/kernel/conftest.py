"""These need a kernel that can be the datapath."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def a_kernel_that_can(kernel_datapath: None) -> None:
    """Skip the test where there is none."""
