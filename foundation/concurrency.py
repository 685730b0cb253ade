"""Coroutines side by side (`asyncio.TaskGroup` is Python 3.11's), and threads that can be left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")
_HEED_S = 0.1


async def together(coroutines: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Results in order. The first error cancels the others and is raised when they have ended."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """`asyncio.to_thread`, but that the end of the loop does not wait for a call that was cancelled."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[Any], None], value: object) -> None:
        if not result.done():
            give(value)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], object] = result.set_result, function(*arguments)
        except BaseException as error:
            outcome = result.set_exception, error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await result


def left_alone(function: Callable[[], T]) -> T:
    """Its result; Ctrl-C need not wait for the call, which may be in native code that hears no signal."""
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    # Polars has system calls go on behind a signal, so that a wait would not hear of it before its end.
    while not result.done():
        wait([result], _HEED_S)
    return result.result()
