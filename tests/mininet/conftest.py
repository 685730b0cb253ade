"""Every test here leaves the machine as it was."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.mininet.run_topo import Traces

_SETTLE_S = 5.0


@pytest.fixture(autouse=True)
def no_traces_are_left() -> Iterator[None]:
    before = Traces.look()
    yield
    # The kernel takes a namespace down a moment after its last process.
    deadline = time.monotonic() + _SETTLE_S
    while Traces.look() != before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Traces.look() == before
