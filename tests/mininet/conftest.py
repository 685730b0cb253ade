"""Every test here leaves the machine as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from switch_harness.waiting import wait_for
from tests.mininet.run_topo import Traces


@pytest.fixture(autouse=True)
def no_traces_are_left() -> Iterator[None]:
    before = Traces.look()
    yield
    # The kernel takes a namespace down a moment after its last process.
    try:
        wait_for(lambda: Traces.look() == before)
    finally:
        assert Traces.look() == before
