"""Concurrent coroutines (`asyncio.TaskGroup` needs Python 3.11), calls in daemon threads, and Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.1


async def gather_or_cancel(coroutines: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Return the results in order; the first error cancels the others, and is raised when they have ended."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Call a function in a thread, as `asyncio.to_thread` does; the loop's end does not wait for the call."""
    return await asyncio.wrap_future(_call_in_thread(partial(function, *arguments)))


def run_interruptibly(function: Callable[[], T]) -> T:
    """Call a function in a thread; Ctrl-C ends the wait at once, even while native code runs."""
    result = _call_in_thread(function)
    # Polars restarts system calls after a signal, so an unlimited wait would notice Ctrl-C only at its end.
    while not result.done():
        wait([result], _POLL_S)
    return result.result()


class InterruptibleCondition(threading.Condition):
    """A condition for which the main thread waits until Ctrl-C, also once Polars has been imported.

    Importing Polars installs a handler of SIGINT after which the kernel restarts the wait for a lock.
    """

    def wait(self, timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            signal.siginterrupt(signal.SIGINT, True)
        return super().wait(timeout)


def _call_in_thread(function: Callable[[], T]) -> Future[T]:
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # from now on, it cannot be cancelled

    def run() -> None:
        try:
            result.set_result(function())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result
