"""Slow processes, for tests of waits."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def slowed(pids: Callable[[], Iterable[int]], factor: int, period_s: float = 0.1) -> Iterator[None]:
    """Let processes run for one part in `factor` of the time during the block, by SIGSTOP and SIGCONT."""
    end = threading.Event()

    def slow() -> None:
        while not end.wait(period_s / factor):
            stopped = _signal_all(pids(), signal.SIGSTOP)
            end.wait(period_s - period_s / factor)
            _signal_all(stopped, signal.SIGCONT)

    thread = threading.Thread(target=slow)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _signal_all(pids: Iterable[int], signal_number: signal.Signals) -> list[int]:
    found = list(pids)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)
    return found
