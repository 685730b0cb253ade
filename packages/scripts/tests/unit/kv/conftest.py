from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.loopback import RunningRendezvous, running_rendezvous


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningRendezvous]:
    """Yield a rendezvous of two workers."""
    with running_rendezvous(tmp_path) as running:
        yield running
