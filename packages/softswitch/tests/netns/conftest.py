"""A network namespace for each test on real veths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from switch_harness.net import namespace


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with namespace(), ExitStack() as opened:
        yield opened
