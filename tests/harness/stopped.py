"""Waits for a process that is stopped until the wait is longer than its limit."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from typing import TypeVar

import pytest

from switch_harness.waiting import PATIENCE_S
from switch_harness.wording import says

T = TypeVar("T")


async def outlast_a_stop(pid: int, wait: Coroutine[object, object, T], log: pytest.LogCaptureFixture) -> T:
    """Begin a wait for a process that is stopped until the limit has passed; return the wait's result."""
    log.clear()
    os.kill(pid, signal.SIGSTOP)
    task = asyncio.ensure_future(wait)
    try:
        await until_a_stop_is_noted(log, task)
    finally:
        os.kill(pid, signal.SIGCONT)
    return await asyncio.wait_for(task, PATIENCE_S)


async def until_a_stop_is_noted(log: pytest.LogCaptureFixture, task: asyncio.Task[object]) -> None:
    """Wait for the note on a stopped process that is due when a wait has lasted for its limit."""
    begin_s = time.monotonic()
    while not says(log.text, "lives", "stopped"):
        assert not task.done(), f"the wait has ended: {task}"
        assert time.monotonic() - begin_s < PATIENCE_S, log.text
        await asyncio.sleep(0.001)
