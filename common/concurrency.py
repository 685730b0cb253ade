"""Running coroutines side by side; `asyncio.TaskGroup` is Python 3.11's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(coroutines: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Results in order. The first error cancels the others and is raised when they have ended."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
