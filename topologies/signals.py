"""Signals that end a run: the first cancels its work, those that follow do not disturb the clearing up."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def cancel_when_signalled(work: asyncio.Future[Any]) -> None:
    """Let the first signal cancel `work`, and no other do anything."""
    signalled = asyncio.Event()

    def stop() -> None:
        if not signalled.is_set():
            signalled.set()
            work.cancel()

    for number in _ENDING:
        asyncio.get_running_loop().add_signal_handler(number, stop)


@contextmanager
def for_a_command_line() -> Iterator[None]:
    """While a command line blocks the loop, Ctrl-C is its own; other signals raise CancelledError at once.

    Behind it there is only clearing up, which no signal disturbs.
    """
    loop = asyncio.get_running_loop()
    for number in _ENDING:
        loop.remove_signal_handler(number)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _cancel)
    try:
        yield
    finally:
        for number in _ENDING:
            loop.add_signal_handler(number, lambda: None)


def _cancel(number: int, _: object) -> NoReturn:
    raise asyncio.CancelledError(signal.Signals(number).name)
