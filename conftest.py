"""Tests of the testbed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from inspect import iscoroutinefunction, signature

import pytest

from foundation.designs.programs import refresh_all
from tests.harness import process_state

pytest_plugins = ["switch_harness.plugin"]


def pytest_configure() -> None:
    """Compile the P4 programs of which a source has changed, once for all processes of a session."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        refresh_all()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    names = signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def unchanged_process() -> Iterator[None]:
    """Check that a test leaves its process as it was."""
    with process_state.unchanged_process():
        yield
