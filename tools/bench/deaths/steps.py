"""What a worker writes of its steps: a file that outlives it, with a number of 8 bytes an event.

The number is the time in s of the monotonic clock, which all processes share: negative where a step begins,
positive where its pushes are acknowledged.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
"""Times in s of the monotonic clock, ascending: (n,)."""


@contextmanager
def logged_step(log: RawIOBase) -> Iterator[None]:
    """Note when the block begins and ends; `log` is not buffered, so that a kill loses no event."""
    log.write(struct.pack("d", -time.monotonic()))
    yield
    log.write(struct.pack("d", time.monotonic()))


def read_times(file: Path) -> tuple[Times, Times]:
    """Return when steps began, and when they were acknowledged; a file that is not there has none."""
    events = np.fromfile(file, np.float64) if file.exists() else np.zeros(0)
    return -events[events < 0], events[events > 0]


def rate(times: Times, begin_s: float, end_s: float) -> float:
    """Return the steps/s in a window."""
    return float(((times >= begin_s) & (times < end_s)).sum() / (end_s - begin_s))


def age(acknowledged: Times, count: int, now_s: float) -> float:
    """Return the time in s that is lost at `now_s` with the state after `count` of the acknowledged steps.

    It is the time since the last step that the state has was acknowledged; 0 if it lacks none.
    """
    if count >= len(acknowledged):
        return 0.0
    return float(now_s - acknowledged[max(count - 1, 0)])
