"""Notices of code that is compiled because no cache has it, for people who wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Notice = Callable[[str, float | None], None]
"""(name, seconds): called with None when a compilation begins, and with its duration when it has ended."""
_notices: list[Notice] = []
_current = threading.local()  # `depth`: number of compilations under way in a thread, each within the last


@contextmanager
def notices_to(notice: Notice) -> Iterator[None]:
    """Have each compilation of this process reported during the block."""
    _notices.append(notice)
    try:
        yield
    finally:
        _notices.remove(notice)


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Give notice of a compilation, unless it is a part of another one."""
    start_s = time.monotonic()
    begin(name)
    try:
        yield
    finally:
        end(name, time.monotonic() - start_s)


def begin(name: str) -> None:
    _current.depth = getattr(_current, "depth", 0) + 1
    _report(name, None)


def end(name: str, seconds: float) -> None:
    _report(name, seconds)
    _current.depth -= 1


def _report(name: str, seconds: float | None) -> None:
    if _current.depth == 1:
        for notice in _notices:
            notice(name, seconds)
