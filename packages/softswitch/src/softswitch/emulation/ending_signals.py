"""Signals that end a network, and that must not interrupt its end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise SystemExit in the block, as SIGINT raises KeyboardInterrupt."""
    previous = {number: signal.getsignal(number) for number in _ENDING}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def ignore_ending_signals() -> None:
    """Ignore these signals until the block of `ended_by_signals` is left: the network's end has begun."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
